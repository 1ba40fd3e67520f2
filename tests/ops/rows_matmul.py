"""Rows of products of dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row
from .weights import routed

SIZES = [(1, 1, 1), (1, 37, 70), (3, 8, 33), (8, 9, 64), (9, 65, 32), (33, 70, 45)]
MORE_SIZES = [
    (1, 256, 128),
    (2, 31, 1030),
    (7, 64, 96),
    (32, 64, 32),
    (40, 129, 31),
    (64, 64, 64),
    (65, 1, 100),
    (97, 3, 65),
]
BATCHES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3,), (3,)),
    ((4,), (2,)),
    ((2, 6), (2, 2)),
    ((2,), ()),
    ((), (3,)),
    ((3, 1), (1, 2)),
    ((5, 3), ()),
]


def exact(a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    left, right = a.astype(np.float64), b.astype(np.float64)
    left = np.swapaxes(left, -1, -2) if transpose_a else left
    right = np.swapaxes(right, -1, -2) if transpose_b else right
    if left.ndim > 2 and right.ndim > 2 and 1 < right.shape[-3] < left.shape[-3]:
        right = np.repeat(right, left.shape[-3] // right.shape[-3], axis=-3)
    return np.asarray(left @ right)


def operands(
    bench: Bench, size: tuple[int, int, int], dtype: DType, transpose_a: bool, transpose_b: bool, **batch: Any
) -> tuple[Array, Array]:
    m, n, k = size
    a = bench.normal(*batch.get("a", ()), *((k, m) if transpose_a else (m, k)), dtype=dtype)
    b = bench.normal(*batch.get("b", ()), *((n, k) if transpose_b else (k, n)), dtype=batch.get("weights", dtype))
    return a, b


@row(
    "matmul",
    dtype=FLOATS,
    size=SIZES,
    transpose_a=[False, True],
    transpose_b=[False, True],
    more={"size": MORE_SIZES},
)
def matmul(bench: Bench, dtype: DType, size: tuple[int, int, int], transpose_a: bool, transpose_b: bool) -> None:
    a, b = operands(bench, size, dtype, transpose_a, transpose_b)
    expected = exact(a, b, transpose_a, transpose_b)
    out = bench.out(*expected.shape, dtype=dtype)
    bench.run(ops.matmul, bench.put(a), bench.put(b), transpose_a=transpose_a, transpose_b=transpose_b, out=out)
    bench.close(out, expected)


@row(
    "matmul",
    weights=[DType.F16, DType.BF16],
    size=[(1, 37, 70), (12, 66, 40)],
    transpose_b=[True, False],
    more={"size": [(1, 300, 256), (4, 17, 33), (40, 40, 40)]},
)
def matmul_mixed(bench: Bench, weights: DType, size: tuple[int, int, int], transpose_b: bool) -> None:
    a, b = operands(bench, size, DType.F32, False, transpose_b, weights=weights)
    bias = bench.normal(size[1])
    out = bench.out(*size[:2])
    bench.run(ops.matmul, bench.put(a), bench.put(b), transpose_b=transpose_b, bias=bench.put(bias), out=out)
    bench.close(out, exact(a, b, False, transpose_b) + bias)


@row(
    "matmul",
    dtype=[DType.F32],
    size=[(1, 20, 40), (10, 33, 20)],
    batch=BATCHES,
    transpose_b=[True],
    more={"dtype": [DType.F16, DType.BF16], "transpose_b": [False], "size": [(5, 1, 33), (33, 65, 9)]},
)
def matmul_batched(bench: Bench, dtype: DType, size: tuple[int, int, int], batch: Any, transpose_b: bool) -> None:
    a, b = operands(bench, size, dtype, False, transpose_b, a=batch[0], b=batch[1])
    bias = bench.normal(size[1], dtype=dtype)
    expected = exact(a, b, False, transpose_b)
    out = bench.out(*expected.shape, dtype=dtype)
    bench.run(ops.matmul, bench.put(a), bench.put(b), transpose_b=transpose_b, bias=bench.put(bias), out=out)
    bench.close(out, expected + bias.astype(np.float64))


@row(
    "addmm",
    dtype=FLOATS,
    size=[(1, 9, 33), (20, 34, 17)],
    added=["scalar", "row", "column", "matrix"],
    factors=[(0.5, -2.0)],
    more={"factors": [(1.0, 1.0), (2.0, 0.0)], "size": [(4, 1, 20), (33, 65, 64)]},
)
def addmm(bench: Bench, dtype: DType, size: tuple[int, int, int], added: str, factors: tuple[float, float]) -> None:
    m, n, k = size
    a, b = operands(bench, size, dtype, False, True)
    c = bench.normal(*{"scalar": (1, 1), "row": (n,), "column": (m, 1), "matrix": (m, n)}[added], dtype=dtype)
    alpha, beta = factors
    out = bench.out(m, n, dtype=dtype)
    bench.run(ops.addmm, *map(bench.put, (c, a, b)), alpha=alpha, beta=beta, transpose_b=True, out=out)
    bench.close(out, alpha * exact(a, b, False, True) + beta * c.astype(np.float64))


@row("addmm", dtype=[DType.F32], batch=BATCHES, more={"dtype": [DType.F16, DType.BF16]})
def addmm_batched(bench: Bench, dtype: DType, batch: Any) -> None:
    a, b = operands(bench, (3, 10, 20), dtype, False, True, a=batch[0], b=batch[1])
    expected = exact(a, b, False, True)
    c = bench.normal(*expected.shape, dtype=dtype)
    out = bench.out(*expected.shape, dtype=dtype)
    bench.run(ops.addmm, *map(bench.put, (c, a, b)), transpose_b=True, out=out)
    bench.close(out, expected + c.astype(np.float64))


@row("matmul", dtype=FLOATS, rows=[2, 12], value=[np.inf, -np.inf, np.nan])
def matmul_special(bench: Bench, dtype: DType, rows: int, value: float) -> None:
    a, b = operands(bench, (rows, 10, 40), dtype, False, True)
    a[1, 3], b[4, 3] = value, 0.0
    with np.errstate(invalid="ignore"):
        expected = exact(a, b, False, True)
    out = bench.out(rows, 10, dtype=dtype)
    bench.run(ops.matmul, bench.put(a), bench.put(b), transpose_b=True, out=out)
    bench.close(out, expected)


@row(
    "matmul_id",
    dtype=FLOATS,
    tokens=[(3, 2), (40, 3)],
    shared=[True, False],
    more={"tokens": [(1, 4), (70, 1), (9, 8)]},
)
def matmul_id(bench: Bench, dtype: DType, tokens: tuple[int, int], shared: bool) -> None:
    w = bench.normal(4, 20, 45, dtype=dtype)
    ids = bench.integers(0, 5, *tokens)  # one id more than there are experts
    x = bench.normal(*(tokens[:1] if shared else tokens), 45, dtype=dtype)
    out = bench.out(*tokens, 20, dtype=dtype)
    bench.run(ops.matmul_id, *map(bench.put, (x, w, ids)), out=out)
    bench.close(out, routed(x, ids, w))


@row("matmul_id", weights=[DType.F16, DType.BF16], tokens=[(2, 3), (30, 2)])
def matmul_id_mixed(bench: Bench, weights: DType, tokens: tuple[int, int]) -> None:
    w = bench.normal(3, 9, 64, dtype=weights)
    ids = bench.integers(0, 3, *tokens)
    x = bench.normal(*tokens, 64)
    out = bench.out(*tokens, 9)
    bench.run(ops.matmul_id, *map(bench.put, (x, w, ids)), out=out)
    bench.close(out, routed(x, ids, w))
