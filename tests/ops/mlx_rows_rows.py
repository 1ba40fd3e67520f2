"""Functions on rows that MLX has too: norms, reductions, sorting, softmax and rope."""

from __future__ import annotations

from typing import Any

import numpy as np

from .mlx_table import MlxRow, normal

X = normal(3, 70)
CUBE = normal(2, 5, 9, seed=1)
HEADS = normal(2, 3, 5, 64, seed=2)
WEIGHT, BIAS = normal(70, seed=3), normal(70, seed=4)
TIES = np.round(normal(4, 1500, seed=5) * 2)
ODD = np.array([[1, np.nan, 3, 3, np.nan], [-np.inf] * 5, [np.inf, 1, np.inf, 0, -np.inf]], np.float32)


def turned(note: str, **options: Any) -> MlxRow:
    usual = {"traditional": False, "base": 10000.0, "scale": 1.0, "offset": 0}
    return MlxRow("rope", (HEADS, options.pop("dims", 64)), usual | options, note=note)


def largest(mx: Any, x: Any, k: int, **options: Any) -> Any:
    """MLX promises no order of its top k."""
    return -mx.sort(-mx.topk(x, k, **options), **options)


ROWS = [
    MlxRow("rms_norm", (X, WEIGHT, 1e-5)),
    MlxRow("rms_norm", (normal(2, 4096), None, 1e-6), note="plain"),
    MlxRow("layer_norm", (X, WEIGHT, BIAS, 1e-5)),
    MlxRow("layer_norm", (X + 3, None, None, 1e-5), note="plain"),
    MlxRow("layer_norm", (X, WEIGHT, None, 1e-5), note="weight"),
    *(MlxRow("softmax", (CUBE,), {"axis": axis}, note=f"axis {axis}") for axis in (-1, 0, 1, None, [0, 2])),
    MlxRow("softmax", (ODD,), {"axis": -1}, note="odd"),
    *(MlxRow("logsumexp", (CUBE,), {"axis": axis}, note=f"axis {axis}") for axis in (-1, 0, None, [0, 1])),
    MlxRow("logsumexp", (ODD[1:],), {"axis": 1, "keepdims": True}, note="odd"),
    *(MlxRow("sum", (CUBE,), {"axis": axis, "keepdims": True}, note=f"axis {axis}") for axis in (-1, 0, None, [0, 2])),
    MlxRow("sum", (CUBE, 1)),
    *(
        MlxRow("cumsum", (CUBE,), {"axis": axis, "reverse": reverse, "inclusive": inclusive}, note=str(axis))
        for axis in (-1, 1, None)
        for reverse in (False, True)
        for inclusive in (False, True)
    ),
    *(
        MlxRow(name, (x,), {"axis": axis}, exact=True, note=f"axis {axis}")
        for name in ("argmax", "argmin")
        for x, axis in ((TIES, -1), (TIES, 0), (CUBE, 1), (CUBE, None), (ODD, 1))
    ),
    MlxRow("argmax", (CUBE, 1, True), exact=True, note="kept"),
    *(
        MlxRow(name, (x,), {"axis": axis}, exact=True, note=f"axis {axis}")
        for name in ("sort", "argsort")
        for x, axis in ((TIES, -1), (TIES, 0), (CUBE, 1), (CUBE, None), (ODD, 1))
    ),
    *(MlxRow("topk", (TIES, k), {"axis": -1}, mlx=largest, exact=True, note=str(k)) for k in (1, 40, 600)),
    MlxRow("topk", (CUBE, 2), {"axis": 1}, mlx=largest, exact=True, note="axis 1"),
    turned("neox"),
    turned("traditional", traditional=True, offset=100),
    turned("partial", dims=20, offset=3),
    turned("partial traditional", dims=20, traditional=True, base=500000.0),
    turned("scale", scale=0.25, offset=7),
    turned("offsets", offset=np.array([4, 900], np.int32)),
    turned("freqs", base=None, freqs=np.exp(np.linspace(0, 7, 32)).astype(np.float32)),
    turned("freqs traditional", base=None, freqs=np.linspace(1, 99, 32, dtype=np.float32), traditional=True, scale=2.0),
]
