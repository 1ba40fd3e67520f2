"""Graphs in files: what is kept, and what a damaged or foreign file is answered with."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from mlx_native_py import (
    CapturedOpKind,
    ComputeGraph,
    MlxDevice,
    ModelFileError,
    Out,
)

from .graph_kit import kernel, mix, numbers
from .random_graphs import SIZE, SOURCE


class TestFiles:
    def test_round_trip(self, device: MlxDevice, tmp_path: Path) -> None:
        x, weight = numbers(device, 1), numbers(device, 5)
        with device.capture(x=x) as g:
            t = mix(g, x, weight, k=2)
            g.encoder.dispatch(
                kernel(device, "spread"),
                t,
                Out(t2 := g.encoder.empty(SIZE, "u32")),
                SIZE,
                threadgroups=1,
                group=SIZE,
                shared=SIZE * 4,
            )
            g.encoder.memory_barrier()
            g.keep(out=mix(g, t2, weight[:], kind=CapturedOpKind.ElemAdd))
        g.run()
        g.save(tmp_path / "g")
        device.kernels.register_source("random_graphs", SOURCE)
        loaded = ComputeGraph.load(tmp_path / "g", device)
        assert loaded.text() == g.text()
        loaded.names["x"].copy_from(x.numpy())
        loaded.optimise().run()
        again = loaded.optimise()
        again.run()
        assert again.names["out"].to_bytes() == g.names["out"].to_bytes()

    def test_a_kernel_from_another_source_is_refused(self, device: MlxDevice, tmp_path: Path) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            mix(g, x, x)
        g.save(tmp_path / "g")
        with MlxDevice(device.backend) as other:
            with pytest.raises(ModelFileError, match="Kernel not found: 'mix'"):
                ComputeGraph.load(tmp_path / "g", other)
            other.kernels.register_source("mix", SOURCE + "\n")
            with pytest.raises(ModelFileError, match="a different source"):
                ComputeGraph.load(tmp_path / "g", other)

    def test_damaged_files(self, device: MlxDevice, tmp_path: Path) -> None:
        x = numbers(device, 1)
        device.kernels.register_source("random_graphs", SOURCE)
        with device.capture(x=x) as g:
            mix(g, mix(g, x, numbers(device, 3)), x)
        path = tmp_path / "g"
        g.save(path)
        whole, rng = path.read_bytes(), np.random.default_rng(0)
        for _ in range(200):
            data = bytearray(whole)
            for at in rng.integers(0, len(data), rng.integers(1, 5)):
                data[at] = rng.integers(256)
            path.write_bytes(data[: int(rng.choice([len(data), int(rng.integers(len(data)))]))])
            try:
                ComputeGraph.load(path, device)
            except ModelFileError as error:
                assert error.field and error.offset is not None and error.offset >= 0


@pytest.mark.parametrize(("slot", "data"), [(2, bytes(SIZE * 4)), (3, bytes(5000)), (3, b"")])
def test_files_bind_numbers_only_where_kernels_read_them(
    device: MlxDevice, tmp_path: Path, slot: int, data: bytes
) -> None:
    x, path = numbers(device, 1), tmp_path / "g"
    device.kernels.register_source("random_graphs", SOURCE)
    with device.capture(x=x) as g:
        mix(g, x, x)
    g.save(path)
    whole = path.read_bytes()
    header = json.loads(whole[16 : 16 + int.from_bytes(whole[8:16], "little")])
    header["nodes"][0]["bindings"][slot][1] = data.hex()
    text = json.dumps(header).encode()
    path.write_bytes(whole[:8] + struct.pack("<Q", len(text)) + text)
    with pytest.raises(ModelFileError, match="bindings"):
        ComputeGraph.load(path, device)
