"""Rows of the norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .rows_rope import rotated
from .table import FLOATS, row

SHAPES = [(1, 1), (3, 33), (2, 1025), (2, 3, 64)]
MORE_SHAPES = [
    (5,),
    (1, 2),
    (4, 31),
    (7, 32),
    (2, 96),
    (3, 511),
    (2, 513),
    (1, 4096),
    (1, 16387),
    (2, 2, 2, 80),
    (257, 33),
]


def rms(x: Array, eps: float) -> Array:
    x = x.astype(np.float64)
    result: Array = x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + eps)
    return result


@row(
    "rms_norm",
    dtype=FLOATS,
    shape=SHAPES,
    weighted=[True, False],
    eps=[1e-5],
    more={"shape": MORE_SHAPES, "eps": [1e-2]},
)
def rms_norm(bench: Bench, dtype: DType, shape: tuple[int, ...], weighted: bool, eps: float) -> None:
    x, out = bench.normal(*shape, dtype=dtype), bench.out(*shape, dtype=dtype)
    weight = bench.normal(shape[-1], dtype=dtype) if weighted else np.ones(shape[-1], dtype.numpy)
    bench.run(ops.rms_norm, bench.put(x), bench.put(weight) if weighted else None, eps=eps, out=out)
    bench.close(out, rms(x, eps) * weight)


@row("rms_norm", dtype=FLOATS, value=[np.nan, np.inf])
def rms_norm_special(bench: Bench, dtype: DType, value: float) -> None:
    """A NaN spoils its row and no other; beside an infinity there are zeros."""
    x, out = bench.normal(3, 40, dtype=dtype), bench.out(3, 40, dtype=dtype)
    x[1, 7] = value
    bench.run(ops.rms_norm, bench.put(x), out=out)
    with np.errstate(invalid="ignore"):
        bench.close(out, rms(x, 1e-5))


@row("l2_norm", dtype=FLOATS, shape=SHAPES[:3], eps=[1e-6], more={"shape": MORE_SHAPES, "eps": [0.5]})
def l2_norm(bench: Bench, dtype: DType, shape: tuple[int, ...], eps: float) -> None:
    x, out = bench.normal(*shape, dtype=dtype), bench.out(*shape, dtype=dtype)
    bench.run(ops.l2_norm, bench.put(x), eps=eps, out=out)
    exact = x.astype(np.float64)
    bench.close(out, exact / np.sqrt(np.sum(np.square(exact), -1, keepdims=True) + eps))


@row(
    "layer_norm",
    dtype=FLOATS,
    shape=SHAPES[1:3],
    parts=["wb", "w", ""],
    mean=[3.0],
    more={"shape": MORE_SHAPES, "parts": ["b"], "mean": [0.0]},
)
def layer_norm(bench: Bench, dtype: DType, shape: tuple[int, ...], parts: str, mean: float) -> None:
    x = (bench.normal(*shape) + np.float32(mean)).astype(dtype.numpy)
    out = bench.out(*shape, dtype=dtype)
    weight, bias = bench.normal(shape[-1], dtype=dtype), bench.normal(shape[-1], dtype=dtype)
    given = [bench.put(part) if name in parts else None for name, part in (("w", weight), ("b", bias))]
    bench.run(ops.layer_norm, bench.put(x), *given, eps=1e-5, out=out)
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
    bench.close(out, exact * (weight if "w" in parts else 1) + (bias.astype(np.float64) if "b" in parts else 0))


@row(
    "residual_rms_norm",
    dtype=FLOATS,
    shape=SHAPES[1:3],
    sum=["", "new", "in place"],
    scale=[1.0],
    more={"shape": MORE_SHAPES, "scale": [0.25]},
)
def residual_rms_norm(bench: Bench, dtype: DType, shape: tuple[int, ...], sum: str, scale: float) -> None:
    x, residual = bench.normal(*shape, dtype=dtype), bench.normal(*shape, dtype=dtype)
    weight, out = bench.normal(shape[-1], dtype=dtype), bench.out(*shape, dtype=dtype)
    added = x.astype(np.float64) + residual.astype(np.float64)
    before = bench.put(residual, changes=sum == "in place")
    total = {"": None, "new": bench.out(*shape, dtype=dtype), "in place": before}[sum]
    options: dict[str, Any] = {"scale": scale, "sum": total, "out": out}
    bench.run(ops.residual_rms_norm, bench.put(x), before, bench.put(weight), **options)
    bench.close(out, rms(added, 1e-5) * weight * scale)
    if total is not None:
        bench.elementwise(total, added)


@row(
    "rms_norm_add",
    dtype=FLOATS,
    shape=SHAPES[1:3],
    weighted=[True, False],
    scale=[1.0],
    more={"shape": MORE_SHAPES, "scale": [2.0]},
)
def rms_norm_add(bench: Bench, dtype: DType, shape: tuple[int, ...], weighted: bool, scale: float) -> None:
    x, residual = bench.normal(*shape, dtype=dtype), bench.normal(*shape, dtype=dtype)
    weight, out = bench.normal(shape[-1], dtype=dtype), bench.out(*shape, dtype=dtype)
    given = bench.put(weight) if weighted else None
    bench.run(ops.rms_norm_add, bench.put(x), bench.put(residual), given, scale=scale, out=out)
    bench.close(out, (residual + rms(x, 1e-5) * (weight if weighted else 1)) * scale)


@row("rms_norm_mul", dtype=FLOATS, shape=SHAPES[1:3], more={"shape": MORE_SHAPES})
def rms_norm_mul(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    x, factor = bench.normal(*shape, dtype=dtype), bench.normal(*shape, dtype=dtype)
    weight, out = bench.normal(shape[-1], dtype=dtype), bench.out(*shape, dtype=dtype)
    bench.run(ops.rms_norm_mul, bench.put(x), bench.put(weight), bench.put(factor), out=out)
    bench.close(out, rms(x, 1e-5) * weight * factor)


@row(
    "head_norm_rope",
    dtype=FLOATS,
    shape=[(2, 3, 80)],
    dims=[None, 32],
    parts=["wf", ""],
    more={
        "shape": [(3, 2, 64), (1, 1, 128), (5, 4, 96), (2, 2, 256), (1, 2, 512)],
        "dims": [2, 64],
        "parts": ["w", "f", "offset"],
    },
)
def head_norm_rope(bench: Bench, dtype: DType, shape: tuple[int, int, int], dims: int | None, parts: str) -> None:
    x, weight = bench.normal(*shape, dtype=dtype), bench.normal(shape[-1], dtype=dtype)
    pairs, out = (dims or shape[-1]) // 2, bench.out(*shape, dtype=dtype)
    factors = bench.rng.uniform(0.5, 8, pairs).astype(np.float32)
    if parts == "offset":
        positions = 70_000 + np.arange(shape[0])
    else:
        positions = bench.integers(0, 1_000_000, shape[0])
    given = 70_000 if parts == "offset" else bench.put(positions)
    weights = bench.put(weight) if "w" in parts else None
    divisors = bench.put(factors) if parts in ("wf", "f") else None
    bench.run(ops.head_norm_rope, bench.put(x), weights, given, dims=dims, factors=divisors, eps=1e-6, out=out)
    normed = rms(x, 1e-6) * (weight.astype(np.float64) if "w" in parts else 1)
    speeds = 10000.0 ** (-np.arange(pairs) / pairs) / (factors.astype(np.float64) if divisors else 1)
    bench.close(out, rotated(normed, positions[:, None, None] * speeds))
