"""Parts of tensors: rows and columns of every kind of weight, over the file where they can be."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_native_py import MlxBuffer, MlxDevice
from mlx_native_py.errors import InvalidArgument
from mlx_native_py.metal import Backend
from mlx_native_py.weights import TensorFile, open_gguf
from mlx_native_py.weights.parts import TensorPart, part_of

ROWS, COLUMNS = 48, 256
FORMATS = ("F16", "F32", "Q4_1", "Q8_0")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> TensorFile:
    path = tmp_path_factory.mktemp("parts") / "parts.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    values = np.random.default_rng(3).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    for name in FORMATS:
        kind = getattr(gguf.GGMLQuantizationType, name)
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.add_tensor("vector", np.arange(ROWS, dtype=np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return open_gguf(path)


ranges = st.tuples(st.integers(0, ROWS - 1), st.integers(1, ROWS)).map(lambda pair: range(pair[0], sum(pair)))


@given(
    name=st.sampled_from(FORMATS),
    rows=st.lists(ranges.filter(lambda each: each.stop <= ROWS), min_size=1, max_size=4),
    blocks=st.tuples(st.integers(0, 7), st.integers(1, 8)).filter(lambda pair: sum(pair) <= 8),
)
def test_rows_and_columns(file: TensorFile, name: str, rows: list[range], blocks: tuple[int, int]) -> None:
    whole = file[f"{name}.weight"]
    columns = range(32 * blocks[0], 32 * sum(blocks))
    part = part_of(whole, rows, columns)
    wanted = [row for each in rows for row in each]
    kind = getattr(gguf.GGMLQuantizationType, name)
    expected = gguf.quants.dequantize(whole.numpy(), kind)[wanted][:, columns.start : columns.stop]
    assert part.shape == expected.shape
    assert np.array_equal(gguf.quants.dequantize(np.ascontiguousarray(part.numpy()), kind), expected)
    assert part.nbytes == part.numpy().nbytes == len(part.bytes())


def test_rows_that_follow_each_other_stay_in_the_file(file: TensorFile) -> None:
    whole = file["Q4_1.weight"]
    part = part_of(whole, [range(4, 8), range(8, 20)])
    assert isinstance(part, TensorPart) and part.rows == (range(4, 20),)
    assert np.shares_memory(part.numpy(), whole.numpy())


@pytest.mark.parametrize("columns", [None, range(32, 96)])
def test_buffers(backend: Backend, file: TensorFile, columns: range | None) -> None:
    with MlxDevice(backend) as device:
        for name in FORMATS:
            part = part_of(file[f"{name}.weight"], [range(3, 40)], columns)
            assert np.array_equal(part.buffer(device).numpy(), part.numpy())
        assert part_of(file["vector"], [range(1, 3), range(9, 10)]).buffer(device).numpy().tolist() == [1, 2, 9]


def test_large_parts_are_the_pages_of_the_file(backend: Backend, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    from mlx_native_py.weights import open_safetensors

    save_file({"w": np.arange(1 << 16, dtype=np.float32).reshape(256, 256)}, tmp_path / "w.safetensors")
    whole = open_safetensors(tmp_path / "w.safetensors")["w"]
    with MlxDevice(backend) as device:
        buffer = part_of(whole, [range(100, 200)]).buffer(device)
        assert buffer.readonly and buffer.allocation.nbytes <= 100 * 1024 + 2 * 16384
        assert buffer.numpy()[0, 0] == 100 * 256


def test_threads_share_the_buffer_of_a_file(backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would be counted as memory of its own."""
    from safetensors.numpy import save_file

    from mlx_native_py.weights import open_safetensors

    save_file({"x": np.arange(1 << 16, dtype=np.float32)}, tmp_path / "large.safetensors")
    make, both = MlxDevice.buffer, threading.Barrier(2)

    def slow(*given: Any, **options: Any) -> MlxBuffer:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return make(*given, **options)

    opened = open_safetensors(tmp_path / "large.safetensors")
    with MlxDevice(backend) as device:
        monkeypatch.setattr(MlxDevice, "buffer", slow)
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(lambda _: opened["x"].buffer(device), range(2)))
        assert found[0].allocation is found[1].allocation


def test_a_block_is_not_cut(file: TensorFile) -> None:
    with pytest.raises(InvalidArgument, match="columns 16 to 48 of 'Q4_1.weight' cut a block: Q4_1 has blocks of 32"):
        part_of(file["Q4_1.weight"], None, range(16, 48))
