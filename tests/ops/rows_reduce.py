"""Rows of sums, running sums and extremes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row

SHAPES = [(1, 1), (3, 33), (2, 1100), (4097,)]
MORE_SHAPES = [
    (5,),
    (2, 2),
    (4, 31),
    (7, 32),
    (2, 3, 96),
    (3, 128),
    (2, 513),
    (1, 4096),
    (16384,),
    (70_001,),
    (257, 33),
]


@row("row_sum", dtype=FLOATS, shape=SHAPES, more={"shape": MORE_SHAPES})
def row_sum(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    x, out = bench.normal(*shape, dtype=dtype), bench.out(*shape[:-1], dtype=dtype).reshape(shape[:-1])
    x += dtype.numpy.type(0.5)
    bench.run(ops.row_sum, bench.put(x), out=out)
    bench.close(out, x.astype(np.float64).sum(-1))


@row("row_sum", dtype=FLOATS, value=[np.nan, np.inf])
def row_sum_special(bench: Bench, dtype: DType, value: float) -> None:
    x, out = bench.normal(3, 70, dtype=dtype), bench.out(3, dtype=dtype)
    x[1, 69] = value
    bench.run(ops.row_sum, bench.put(x), out=out)
    bench.close(out, x.astype(np.float64).sum(-1))


@row(
    "cumsum",
    dtype=FLOATS,
    shape=SHAPES[1:],
    reverse=[False, True],
    inclusive=[True],
    more={"shape": [SHAPES[0], *MORE_SHAPES], "inclusive": [False]},
)
def cumsum(bench: Bench, dtype: DType, shape: tuple[int, ...], reverse: bool, inclusive: bool) -> None:
    x, out = bench.normal(*shape, dtype=dtype), bench.out(*shape, dtype=dtype)
    bench.run(ops.cumsum, bench.put(x), reverse=reverse, inclusive=inclusive, out=out)
    bench.close(out, running(x, reverse, inclusive))


@row("cumsum", dtype=FLOATS, value=[np.nan, np.inf, -np.inf])
def cumsum_special(bench: Bench, dtype: DType, value: float) -> None:
    """What is before the odd value stays as it is."""
    x, out = bench.normal(2, 300, dtype=dtype), bench.out(2, 300, dtype=dtype)
    x[1, 150] = value
    bench.run(ops.cumsum, bench.put(x), inclusive=False, out=out)
    bench.close(out, running(x, False, False))


def running(x: Array, reverse: bool, inclusive: bool) -> Array:
    turned = (x[..., ::-1] if reverse else x).astype(np.float64)
    sums = np.cumsum(turned, -1)
    if not inclusive:
        sums = np.concatenate([np.zeros_like(sums[..., :1]), sums[..., :-1]], -1)
    return sums[..., ::-1] if reverse else sums


def extreme(bench: Bench, name: str, x: Array, dtype: DType) -> None:
    index, value = (bench.out(*x.shape[:-1], dtype=kind).reshape(x.shape[:-1]) for kind in (DType.U32, dtype))
    bench.run(getattr(ops, name), bench.put(x), out=index, value=value)
    expected = getattr(np, name)(x.astype(np.float32), -1)
    bench.exact(index, np.asarray(expected, np.uint32))
    bench.exact(value, np.asarray(np.take_along_axis(x, expected[..., None], -1)[..., 0]))


@row("argmax", dtype=FLOATS, shape=SHAPES, more={"shape": MORE_SHAPES})
def argmax(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    extreme(bench, "argmax", bench.normal(*shape, dtype=dtype), dtype)


@row("argmin", dtype=FLOATS, shape=SHAPES[:3], more={"shape": MORE_SHAPES})
def argmin(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    extreme(bench, "argmin", bench.normal(*shape, dtype=dtype), dtype)


ODD_ROWS: dict[str, Callable[[Array], Array]] = {
    "ties": lambda x: np.where(np.arange(x.size) % 37 == 5, 9, x),
    "far ties": lambda x: np.where(np.isin(np.arange(x.size), (1, 1024)), 9, x),
    "all minus infinity": lambda x: np.full_like(x, -np.inf),
    "all infinity": lambda x: np.full_like(x, np.inf),
    "a NaN with a sign": lambda x: np.where(np.arange(x.size) == 900, -np.float32(np.nan), x),
    "two NaNs": lambda x: np.where(np.isin(np.arange(x.size), (700, 1300)), np.nan, x),
    "zeros of both signs": lambda x: np.where(np.arange(x.size) % 2, -0.0, 0.0),
}


ODD_SIZES = [2000, 40001]  # short of a block, and blocks with numbers left over


@row("argmax", dtype=FLOATS[:1], kind=list(ODD_ROWS), size=ODD_SIZES, more={"dtype": FLOATS[1:]})
def argmax_special(bench: Bench, dtype: DType, kind: str, size: int) -> None:
    extreme(bench, "argmax", ODD_ROWS[kind](bench.normal(size)).astype(dtype.numpy), dtype)


@row("argmin", dtype=FLOATS[:1], kind=list(ODD_ROWS), size=ODD_SIZES, more={"dtype": FLOATS[1:]})
def argmin_special(bench: Bench, dtype: DType, kind: str, size: int) -> None:
    extreme(bench, "argmin", -ODD_ROWS[kind](bench.normal(size)).astype(dtype.numpy), dtype)
