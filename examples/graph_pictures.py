"""Records a gated layer, makes it better, and writes a picture of the graph before and after into a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from mlx_native_py import ComputeGraph, MlxDevice, ops


def record(device: MlxDevice) -> ComputeGraph:
    rng = np.random.default_rng(0)
    x, gate, up = (device.buffer(rng.normal(size=(4, 64)).astype(np.float32)) for _ in range(3))
    weight = device.buffer(rng.normal(size=64).astype(np.float32))
    with device.capture(x=x, weight=weight, gate=gate, up=up) as graph:
        h = ops.rms_norm(graph.encoder, x, weight)
        a, b = ops.mul(graph.encoder, h, gate), ops.mul(graph.encoder, h, up)
        gated = ops.mul(graph.encoder, ops.silu(graph.encoder, a), b)
        graph.keep(out=ops.add(graph.encoder, gated, x))
    return graph


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    graph = record(MlxDevice())
    better = graph.optimise()
    graph.run()
    expected = graph.names["out"].numpy().copy()
    better.run()
    assert (better.names["out"].numpy() == expected).all()
    for name, shown in (("before", graph), ("after", better)):
        path = folder / f"graph-{name}.svg"
        path.write_text(shown.svg())
        print(f"{path}: {shown!r}")
    print(f"changes: {better.changes}")


if __name__ == "__main__":
    main()
