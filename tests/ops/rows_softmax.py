"""Rows of softmax and its kin."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row

SHAPES = [(1, 1), (3, 33), (2, 1100), (2, 3, 64)]
MORE_SHAPES = [(5,), (4, 2), (4, 31), (7, 32), (3, 128), (2, 513), (1, 4096), (16384,), (40_001,), (257, 33)]
MASKS = (DType.F32, DType.F16, DType.BF16, DType.BOOL)


def shares(x: Array) -> Array:
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(x - x.max(-1, keepdims=True))
    result: Array = powers / powers.sum(-1, keepdims=True)
    return result


@row("softmax", dtype=FLOATS, shape=SHAPES, spread=[4.0], more={"shape": MORE_SHAPES, "spread": [0.1, 60.0]})
def softmax(bench: Bench, dtype: DType, shape: tuple[int, ...], spread: float) -> None:
    x, out = bench.normal(*shape, dtype=dtype, scale=spread), bench.out(*shape, dtype=dtype)
    bench.run(ops.softmax, bench.put(x), out=out)
    bench.close(out, shares(x))


@row("softmax", dtype=FLOATS, kind=["some", "all", "NaN", "infinity", "huge"])
def softmax_special(bench: Bench, dtype: DType, kind: str) -> None:
    x, out = bench.normal(3, 70, dtype=dtype), bench.out(3, 70, dtype=dtype)
    x[1, {"some": slice(3, 60), "all": slice(None)}.get(kind, 7)] = -np.inf
    if kind not in ("some", "all"):
        x[1, 7] = {"NaN": np.nan, "infinity": np.inf, "huge": 60000.0}[kind]
    bench.run(ops.softmax, bench.put(x), out=out)
    bench.close(out, shares(x))


@row("softmax", dtype=FLOATS, shape=[(2, 45)])
def softmax_in_place(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    x = bench.normal(*shape, dtype=dtype)
    given = bench.put(x, changes=True)
    bench.run(ops.softmax, given, out=given)
    bench.close(given, shares(x))


@row(
    "scale_mask_softmax",
    dtype=FLOATS,
    mask=MASKS,
    shape=[(2, 3, 5, 33)],
    more={"shape": [(4, 4), (2, 2, 16, 128), (1, 2, 3, 1025), (6, 1, 70)]},
)
def scale_mask_softmax(bench: Bench, dtype: DType, mask: DType, shape: tuple[int, ...]) -> None:
    x, out = bench.normal(*shape, dtype=dtype, scale=3.0), bench.out(*shape, dtype=dtype)
    keep = bench.rng.random(shape[-2:]) < 0.7
    keep[:, 0] = True
    if mask is DType.BOOL:
        given, added = keep, np.where(keep, 0.0, -np.inf)
    else:
        given = np.where(keep, bench.normal(*keep.shape), -np.inf).astype(mask.numpy)
        added = given.astype(np.float64)
    bench.run(ops.scale_mask_softmax, bench.put(x), bench.put(given), scale=0.37, out=out)
    bench.close(out, shares(x.astype(np.float64) * np.float32(0.37) + added))


@row("logsumexp", dtype=FLOATS, shape=SHAPES[1:3], spread=[4.0], more={"shape": MORE_SHAPES, "spread": [60.0]})
def logsumexp(bench: Bench, dtype: DType, shape: tuple[int, ...], spread: float) -> None:
    x, out = bench.normal(*shape, dtype=dtype, scale=spread), bench.out(*shape[:-1], dtype=dtype).reshape(shape[:-1])
    bench.run(ops.logsumexp, bench.put(x), out=out)
    bench.close(out, np.asarray(np.logaddexp.reduce(x.astype(np.float64), -1)))


@row("logsumexp", dtype=FLOATS, value=[np.inf, -np.inf])
def logsumexp_special(bench: Bench, dtype: DType, value: float) -> None:
    x, out = bench.normal(3, 40, dtype=dtype), bench.out(3, dtype=dtype)
    x[1, 7], x[2] = value, -np.inf
    bench.run(ops.logsumexp, bench.put(x), out=out)
    bench.close(out, np.asarray(np.logaddexp.reduce(x.astype(np.float64), -1)))
