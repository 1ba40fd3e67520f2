"""Rows of sorting."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row

SHAPES = [(1, 1), (3, 33), (2, 1500)]
MORE_SHAPES = [(7,), (2, 2), (4, 64), (3, 65), (2, 2, 128), (2, 1023), (1, 1024), (2, 1025), (1, 2049), (1, 5000)]


def order(x: Array, descending: bool) -> Array:
    """The indices of a stable sort, with NaN last."""
    exact = x.astype(np.float64)
    return np.argsort(-exact if descending else exact, axis=-1, kind="stable").astype(np.uint32)


def values(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Random numbers with many ties, and infinities, NaN and zeros of both signs in long rows."""
    x = np.round(bench.normal(*shape) * 8).astype(np.float32) / 8
    if shape[-1] > 30:
        for value in (np.inf, -np.inf, np.nan, -0.0, 0.0, np.inf, -np.inf):
            x[..., bench.rng.integers(shape[-1])] = value
    return x.astype(dtype.numpy)


@row("argsort", dtype=FLOATS, shape=SHAPES, descending=[False, True], more={"shape": MORE_SHAPES})
def argsort(bench: Bench, dtype: DType, shape: tuple[int, ...], descending: bool) -> None:
    x, out = values(bench, dtype, shape), bench.out(*shape, dtype=DType.U32)
    bench.run(ops.argsort, bench.put(x), descending=descending, out=out)
    bench.exact(out, order(x, descending))


@row("argsort", dtype=FLOATS[:1], kind=["minus infinity", "all NaN", "all equal"], more={"dtype": FLOATS[1:]})
def argsort_special(bench: Bench, dtype: DType, kind: str) -> None:
    rows: dict[str, list[float]] = {"minus infinity": [-np.inf, 1, 2], "all NaN": [np.nan] * 5, "all equal": [3] * 70}
    row_of = rows[kind]
    x, out = np.array(row_of, dtype.numpy), bench.out(len(row_of), dtype=DType.U32)
    bench.run(ops.argsort, bench.put(x), descending=True, out=out)
    bench.exact(out, order(x, True))


@row("sort", dtype=FLOATS, shape=SHAPES, descending=[False], more={"shape": MORE_SHAPES, "descending": [True]})
def sort(bench: Bench, dtype: DType, shape: tuple[int, ...], descending: bool) -> None:
    x, out = values(bench, dtype, shape), bench.out(*shape, dtype=dtype)
    bench.run(ops.sort, bench.put(x), descending=descending, out=out)
    bench.exact(out, np.take_along_axis(x, order(x, descending), -1))


@row(
    "top_k",
    dtype=FLOATS,
    shape=SHAPES,
    k=[1, 40],
    more={"shape": [*MORE_SHAPES, (1, 20_000)], "k": [3, 511, 700]},
)
def top_k(bench: Bench, dtype: DType, shape: tuple[int, ...], k: int) -> None:
    k = min(k, shape[-1])
    x, size = values(bench, dtype, shape), (*shape[:-1], k)
    out, indices = bench.out(*size, dtype=dtype), bench.out(*size, dtype=DType.U32)
    bench.run(ops.top_k, bench.put(x), k, out=out, indices=indices)
    first = order(x, True)[..., :k]
    bench.exact(indices, first)
    bench.exact(out, np.take_along_axis(x, first, -1))


@row("argsort", dtype=FLOATS[:1], length=[], more={"length": [65_537, 151_936]})
def argsort_of_a_vocabulary(bench: Bench, dtype: DType, length: int) -> None:
    x, out = values(bench, dtype, (length,)), bench.out(length, dtype=DType.U32)
    bench.run(ops.argsort, bench.put(x), descending=True, out=out)
    bench.exact(out, order(x, True))
