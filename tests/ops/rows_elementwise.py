"""Rows of the elementwise ops."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, ops

from .bench import Bench
from .table import FLOATS, row

SHAPES = [(1,), (3, 7), (257,), (2, 33, 5)]


@row("add", dtype=FLOATS, shape=SHAPES, more={"shape": [(31,), (1025, 3), (64, 64)]})
def add(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    a, b = bench.normal(*shape, dtype=dtype), bench.normal(*shape, dtype=dtype)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.add, bench.put(a), bench.put(b), out)
    bench.elementwise(out, a.astype(np.float64) + b.astype(np.float64))
