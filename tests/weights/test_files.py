"""Model files as people have them, and as nobody should: damaged, lying, endless."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

from mlx_native_py import InvalidArgument, MlxDevice, ModelFileError
from mlx_native_py.weights import open_gguf, open_safetensors
from mlx_native_py.weights.ggml_types import GGML_TYPES


@pytest.fixture(scope="module", params=["soft", pytest.param("metal", marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with MlxDevice(request.param) as opened:
        yield opened


def written(path: Path, fill: Callable[[gguf.GGUFWriter], None]) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def small_model(writer: gguf.GGUFWriter) -> None:
    writer.add_uint32("llama.block_count", 2)
    writer.add_bool("yes", True)
    writer.add_float32("eps", 1e-5)
    writer.add_array("tokens", ["a", "ä", "", "long word"])
    writer.add_array("scores", [1.5, -2.0])
    writer.add_array("types", [1, 2, 3])
    rng = np.random.default_rng(0)
    writer.add_tensor("norm", rng.normal(size=5).astype(np.float32))
    writer.add_tensor("half", rng.normal(size=(3, 4)).astype(np.float16))
    for name in ("Q4_0", "Q8_0", "Q4_1"):
        kind = getattr(gguf.GGMLQuantizationType, name)
        data = gguf.quants.quantize(rng.normal(size=(3, 64)).astype(np.float32), kind)
        writer.add_tensor(name, data, raw_dtype=kind)


class TestGguf:
    def test_tensors_and_metadata(self, device: MlxDevice, tmp_path: Path) -> None:
        path = written(tmp_path / "m.gguf", small_model)
        file, reader = open_gguf(path), gguf.GGUFReader(path)
        assert list(file) == [tensor.name for tensor in reader.tensors]
        for tensor in reader.tensors:
            ours = file[tensor.name]
            assert ours.shape == tuple(reversed(tensor.shape.tolist())) and ours.nbytes == tensor.n_bytes
            assert bytes(ours.bytes()) == tensor.data.tobytes() == ours.buffer(device).to_bytes()
        about = file.metadata
        assert (about["llama.block_count"], about["yes"], about["general.architecture"]) == (2, True, "llama")
        assert about["eps"] == np.float32(1e-5) and list(about["tokens"]) == ["a", "ä", "", "long word"]
        assert about["scores"].tolist() == [1.5, -2.0] and about["types"].tolist() == [1, 2, 3]
        assert file["Q4_1"].format == "Q4_1" and file["Q4_1"].numpy().shape == (3, 2 * GGML_TYPES["Q4_1"].bytes)

    def test_tensors_lie_in_the_mapped_file(self, device: MlxDevice, tmp_path: Path) -> None:
        file = open_gguf(written(tmp_path / "m.gguf", small_model))
        one, other = file["norm"].buffer(device), file["Q8_0"].buffer(device)
        assert one.allocation is other.allocation and one.readonly
        assert file["norm"].buffer(device, copy=True).allocation is not one.allocation

    def test_an_unknown_type_does_not_block_the_rest(self, tmp_path: Path) -> None:
        def fill(writer: gguf.GGUFWriter) -> None:
            small_model(writer)
            writer.add_tensor("odd", np.zeros((1, 66), np.uint8), raw_dtype=gguf.GGMLQuantizationType.IQ2_XXS)

        file = open_gguf(written(tmp_path / "m.gguf", fill))
        assert "not supported" in file["odd"].problem and len(file["norm"].numpy()) == 5
        with pytest.raises(InvalidArgument, match="tensor 'odd' of m.gguf: GGML type 16"):
            file["odd"].numpy()

    def test_split_files(self, tmp_path: Path) -> None:
        for number in (1, 2):

            def fill(writer: gguf.GGUFWriter, number: int = number) -> None:
                writer.add_uint16("split.no", number - 1)
                writer.add_uint16("split.count", 2)
                writer.add_tensor(f"t{number}", np.full(4, number, np.float32))

            written(tmp_path / f"m-{number:05}-of-00002.gguf", fill)
        file = open_gguf(tmp_path / "m-00001-of-00002.gguf")
        assert [file[name].numpy()[0] for name in file] == [1.0, 2.0]
        with pytest.raises(ModelFileError, match="open the first one"):
            open_gguf(tmp_path / "m-00002-of-00002.gguf")


class TestSafetensors:
    def test_tensors_and_metadata(self, device: MlxDevice, tmp_path: Path) -> None:
        arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.arange(5, dtype=np.uint32)}
        save_file(arrays, tmp_path / "m.safetensors", {"format": "mlx"})
        file = open_safetensors(tmp_path / "m.safetensors")
        assert file.metadata == {"format": "mlx"}
        for name, array in arrays.items():
            assert np.array_equal(file[name].numpy(), array) and np.array_equal(file[name].buffer(device), array)

    def test_shards(self, tmp_path: Path) -> None:
        for number in (1, 2):
            save_file({f"t{number}": np.full(2, number, np.float32)}, tmp_path / f"model-{number}.safetensors")
        places = {"t1": "model-1.safetensors", "t2": "model-2.safetensors"}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        assert sorted(open_safetensors(tmp_path)) == ["t1", "t2"]
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"t": "../m.safetensors"}}))
        with pytest.raises(ModelFileError, match="same folder"):
            open_safetensors(tmp_path)

    def test_an_unknown_type_does_not_block_the_rest(self, tmp_path: Path) -> None:
        path = tmp_path / "m.safetensors"
        header = {
            "odd": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]},
            "plain": {"dtype": "U8", "shape": [2], "data_offsets": [4, 6]},
        }
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(6))
        file = open_safetensors(path)
        assert "F8_E4M3" in file["odd"].problem and file["plain"].numpy().tolist() == [0, 0]


def gguf_bytes(*parts: Any) -> bytes:
    """Integers as u64, strings with their length, bytes as they are."""
    data = b""
    for part in parts:
        if isinstance(part, int):
            data += struct.pack("<Q", part)
        else:
            data += part if isinstance(part, bytes) else struct.pack("<Q", len(part)) + part.encode()
    return data


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


HEAD = b"GGUF" + u32(3)
HUGE = (1 << 64) - 1
BAD_GGUF: dict[str, bytes] = {
    "empty": b"",
    "short": b"GGU",
    "magic": b"GGML" + u32(3) + bytes(16),
    "version": b"GGUF" + u32(1) + bytes(16),
    "big-endian": b"GGUF" + struct.pack(">I", 3) + bytes(16),
    "tensor count": HEAD + gguf_bytes(HUGE, 0),
    "pair count": HEAD + gguf_bytes(0, 1 << 60),
    "key length": HEAD + gguf_bytes(0, 1, HUGE, bytes(16)),
    "key is no text": HEAD + gguf_bytes(0, 1, 2, b"\xff\xfe", u32(4), u32(1), bytes(8)),
    "value type": HEAD + gguf_bytes(0, 1, "k", u32(99), bytes(8)),
    "key without a name": HEAD + gguf_bytes(0, 1, "", u32(77), bytes(64)),
    "key twice": HEAD + gguf_bytes(0, 2, "k", u32(4), u32(1), "k", u32(4), u32(1)),
    "array type": HEAD + gguf_bytes(0, 1, "k", u32(9), u32(77), 1, bytes(8)),
    "array of arrays": HEAD + gguf_bytes(0, 1, "k", u32(9), u32(9), 1, u32(9), bytes(64)),
    "array count": HEAD + gguf_bytes(0, 1, "k", u32(9), u32(4), 1 << 61, bytes(8)),
    "string count": HEAD + gguf_bytes(0, 1, "k", u32(9), u32(8), 1 << 61, bytes(8)),
    "string in array": HEAD + gguf_bytes(0, 1, "k", u32(9), u32(8), 2, "a", HUGE),
    "alignment": HEAD + gguf_bytes(0, 1, "general.alignment", u32(4), u32(3)),
    "axes": HEAD + gguf_bytes(1, 0, "t", u32(1 << 31), bytes(64)),
    "axis zero": HEAD + gguf_bytes(1, 0, "t", u32(1), 0, u32(0), 0, bytes(64)),
    "shape product": HEAD + gguf_bytes(1, 0, "t", u32(4), HUGE, HUGE, HUGE, HUGE, u32(0), 0, bytes(64)),
    "offset": HEAD + gguf_bytes(1, 0, "t", u32(1), 4, u32(0), 1 << 40, bytes(64)),
    "offset alignment": HEAD + gguf_bytes(1, 0, "t", u32(1), 4, u32(0), 1, bytes(64)),
    "half a block": HEAD + gguf_bytes(1, 0, "t", u32(1), 33, u32(2), 0, bytes(64)),
    "overlap": HEAD + gguf_bytes(2, 0, "t", u32(1), 4, u32(0), 0, "u", u32(1), 4, u32(0), 0, bytes(128)),
    "tensor twice": HEAD + gguf_bytes(2, 0, "t", u32(1), 4, u32(0), 0, "t", u32(1), 4, u32(0), 32, bytes(128)),
}


def st(header: Any, data: int = 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}


BAD_SAFETENSORS: dict[str, bytes] = {
    "empty": b"",
    "short": b"\x01",
    "length": struct.pack("<Q", HUGE) + b"{}",
    "no json": st(b"{nothing"),
    "no table": st([1]),
    "deep": st(b"[" * 100_000),
    "deep table": st(b'{"a":' * 50_000),
    "entry": st({"t": 1}),
    "metadata": st({"__metadata__": 3}),
    "shape": st({"t": entry(shape="two")}),
    "shape of floats": st({"t": entry(shape=[2.0])}),
    "negative": st({"t": entry(shape=[-2])}),
    "too many axes": st({"t": entry(shape=[1] * 1000)}),
    "product": st({"t": entry(shape=[1 << 62] * 8)}),
    "offsets": st({"t": entry(data_offsets=[0])}),
    "offsets backwards": st({"t": entry(data_offsets=[8, 0])}),
    "beyond": st({"t": entry(data_offsets=[0, 1 << 40])}),
    "size": st({"t": entry(shape=[3])}),
    "overlap": st({"t": entry(), "u": entry(data_offsets=[0, 8])}),
    "name twice": st(b'{"t":' + json.dumps(entry()).encode() + b',"t":' + json.dumps(entry()).encode() + b"}"),
    "missing": st({"t": {}}),
}


def opened_and_read(path: Path, opened: Callable[[Path], Any]) -> bool:
    """Whether the file is taken, and then whether its tensors are: each within the file, and none in another."""
    try:
        file = opened(path)
        for tensor in file.values():
            if not tensor.problem:
                assert tensor.numpy().nbytes == tensor.nbytes
    except ModelFileError as error:
        assert error.field and error.offset is not None and error.offset >= 0
        return False
    end = 0
    for tensor in sorted(file.values(), key=lambda each: (each.offset, each.nbytes)):
        assert end <= tensor.offset and 0 <= tensor.nbytes
        end = tensor.offset + tensor.nbytes
    assert end <= path.stat().st_size
    return True


def refused(path: Path, data: bytes, opened: Callable[[Path], Any], *, always: bool) -> None:
    """ModelFileError, quickly, and without much memory; what is taken is whole."""
    path.write_bytes(data)
    begin = time.process_time()
    taken = opened_and_read(path, opened)
    seconds = time.process_time() - begin
    assert not (taken and always), "was taken"
    assert seconds <= 0.1 or quickest(path, opened) <= 0.1
    tracemalloc.start()
    opened_and_read(path, opened)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 4 * len(data) + (16 << 20)


def quickest(path: Path, opened: Callable[[Path], Any]) -> float:
    """The least of some times: one alone may have had a collection of garbage in it."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        opened_and_read(path, opened)
        times.append(time.process_time() - begin)
    return min(times)


@pytest.mark.parametrize("name", BAD_GGUF)
def test_bad_gguf(tmp_path: Path, name: str) -> None:
    refused(tmp_path / "m.gguf", BAD_GGUF[name], open_gguf, always=True)


@pytest.mark.parametrize("name", BAD_SAFETENSORS)
def test_bad_safetensors(tmp_path: Path, name: str) -> None:
    refused(tmp_path / "m.safetensors", BAD_SAFETENSORS[name], open_safetensors, always=True)


def mutations(whole: bytes, count: int, seed: int) -> Iterator[bytes]:
    rng = np.random.default_rng(seed)
    words = [0, 1, 0xFF, 0x7F, 0x80]
    for _ in range(count):
        data = bytearray(whole)
        for at in rng.integers(0, min(len(data), 600), rng.integers(1, 6)):
            data[at] = int(rng.choice(words)) if rng.integers(2) else int(rng.integers(256))
        yield bytes(data[: int(rng.integers(len(data)))] if rng.integers(4) == 0 else data)


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.full)])
def test_files_that_end_early(tmp_path: Path, step: int) -> None:
    whole = written(tmp_path / "m.gguf", small_model).read_bytes()
    for length in range(0, min(len(whole), 4000), step):
        refused(tmp_path / "x.gguf", whole[:length], open_gguf, always=False)
    save_file({"a": np.zeros((2, 3), np.float32), "b": np.zeros(5, np.uint32)}, tmp_path / "m.safetensors", {"k": "v"})
    whole = (tmp_path / "m.safetensors").read_bytes()
    for length in range(0, len(whole), step):
        refused(tmp_path / "x.safetensors", whole[:length], open_safetensors, always=True)


MILLION = [pytest.param(50_000, seed, marks=pytest.mark.full) for seed in range(2, 12)]


@pytest.mark.parametrize(("count", "seed"), [(1000, 1), *MILLION])
def test_mutated_files(tmp_path: Path, count: int, seed: int) -> None:
    whole = written(tmp_path / "m.gguf", small_model).read_bytes()
    for data in mutations(whole, count, seed):
        refused(tmp_path / "x.gguf", data, open_gguf, always=False)
    save_file({"a": np.zeros((2, 3), np.float32), "b": np.zeros(5, np.uint32)}, tmp_path / "m.safetensors", {"k": "v"})
    for data in mutations((tmp_path / "m.safetensors").read_bytes(), count, seed):
        refused(tmp_path / "x.safetensors", data, open_safetensors, always=False)


CUT = """
import os, sys
import numpy as np
from mlx_native_py import CommandBufferError, MlxDevice, ModelFileError
from mlx_native_py.weights import open_gguf, open_safetensors
device, path, opened = MlxDevice("soft"), sys.argv[1], {"gguf": open_gguf, "safetensors": open_safetensors}
file = opened[path.partition(".")[2]](path)
add = device.compile("kernel void add(device const int *x, device int *y, uint i [[thread_position_in_grid]]) "
                     "{ y[i] = x[i] + 1; }").add
bound, result = file["b"].buffer(device), np.zeros(4096, np.int32)
os.truncate(path, 5000)
for read in (file["b"].numpy, file["b"].bytes, lambda: file["b"].buffer(device)):
    try:
        read()
        print("read")
    except ModelFileError as error:
        print(error.field, error.offset, "has been cut" in str(error))
try:
    add(bound, result)
    print("ran")
except CommandBufferError as error:
    print("bad address" in str(error))
print(file["a"].numpy().sum())
"""


@pytest.mark.soft
@pytest.mark.skipif(sys.platform != "linux", reason="the software device's word for the fault")
@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_files_that_are_cut_while_they_are_open(tmp_path: Path, kind: str) -> None:
    arrays, path = {"a": np.ones(8, np.float32), "b": np.zeros(4096, np.int32)}, tmp_path / f"m.{kind}"

    def fill(writer: gguf.GGUFWriter) -> None:
        for name, array in arrays.items():
            writer.add_tensor(name, array)

    if kind == "gguf":
        written(path, fill)
    else:
        save_file(arrays, path)
    command = [sys.executable, "-c", CUT, path.name]
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout.split("\n")) == (0, ["b 5000 True"] * 3 + ["True", "8.0", ""]), done.stderr
