"""Rows of the rotary embeddings."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row

PLAIN = [(2, 3, 5, 64), (1, 2, 3, 80)]
MORE_PLAIN = [(7, 32), (3, 4, 128), (1, 1, 1, 2), (2, 2, 33, 96), (1, 3, 2, 256), (1, 2, 1, 512), (2, 11, 40, 8)]
TOKENS = [(5, 3, 64), (3, 2, 40)]
MORE_TOKENS = [(1, 1, 128), (33, 2, 16), (2, 9, 256), (65, 17, 16)]


def speeds(pairs: int, base: float = 10000.0) -> Array:
    return base ** (-np.arange(pairs) / pairs)


def rotated(x: Array, angles: Array, traditional: bool = False) -> Array:
    """x[..., width] with its first pairs turned by angles[..., pairs]."""
    out, pairs = x.astype(np.float64), angles.shape[-1]
    first, second = (
        (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)) if traditional else (slice(pairs), slice(pairs, 2 * pairs))
    )
    a, b = out[..., first].copy(), out[..., second].copy()
    out[..., first] = a * np.cos(angles) - b * np.sin(angles)
    out[..., second] = a * np.sin(angles) + b * np.cos(angles)
    return out


@row(
    "rope",
    dtype=FLOATS,
    shape=PLAIN,
    traditional=[True, False],
    dims=[None, 18],
    offset=[999_990],
    more={"shape": MORE_PLAIN, "dims": [2], "offset": [0, 7]},
)
def rope(bench: Bench, dtype: DType, shape: tuple[int, ...], traditional: bool, dims: int | None, offset: int) -> None:
    dims = None if dims and dims > shape[-1] else dims
    x, out = bench.normal(*shape, dtype=dtype), bench.out(*shape, dtype=dtype)
    bench.run(ops.rope, bench.put(x), dims=dims, traditional=traditional, offset=offset, out=out)
    angles = (offset + np.arange(shape[-2]))[:, None] * speeds((dims or shape[-1]) // 2)
    bench.close(out, rotated(x, angles, traditional))


@row(
    "rope",
    dtype=FLOATS,
    source=["factors", "frequencies", "base", "in place"],
    scale=[0.25],
    more={"scale": [1.0, 1.5, 40.0]},
)
def rope_options(bench: Bench, dtype: DType, source: str, scale: float) -> None:
    """An offset per sequence, a scale, and where the frequencies come from."""
    x = bench.normal(3, 2, 4, 48, dtype=dtype)
    offsets = bench.integers(0, 100_000, 3, dtype=DType.I32)
    given, factors = bench.put(x, changes=source == "in place"), bench.rng.uniform(0.01, 300, 24).astype(np.float32)
    factors[[0, 5]] = 1e30, 1.0
    out = given if source == "in place" else bench.out(*x.shape, dtype=dtype)
    divides = source in ("factors", "frequencies")
    base = {"frequencies": None, "base": 500_000.0}.get(source, 10000.0)
    divisors = bench.put(factors) if divides else None
    bench.run(ops.rope, given, base=base, scale=scale, offset=bench.put(offsets), factors=divisors, out=out)
    turns = np.ones(24) if base is None else speeds(24, base)
    turns = scale * turns / (factors.astype(np.float64) if divides else 1)
    angles = (offsets[:, None] + np.arange(4))[:, None, :, None] * turns
    bench.close(out, rotated(x, angles))


@row(
    "rope_at",
    dtype=FLOATS,
    shape=TOKENS,
    traditional=[True, False],
    dims=[16],
    more={"shape": MORE_TOKENS, "dims": [None, 2, 8, 12]},
)
def rope_at(bench: Bench, dtype: DType, shape: tuple[int, int, int], traditional: bool, dims: int | None) -> None:
    x, out = bench.normal(*shape, dtype=dtype), bench.out(*shape, dtype=dtype)
    positions = bench.integers(0, 1_000_000, shape[0])
    bench.run(ops.rope_at, bench.put(x), bench.put(positions), dims=dims, traditional=traditional, out=out)
    angles = positions[:, None, None] * speeds((dims or shape[-1]) // 2)
    bench.close(out, rotated(x, angles, traditional))


@row(
    "rope_multi",
    dtype=FLOATS,
    mode=["mrope", "imrope", "vision"],
    shape=[(5, 2, 64)],
    dims=[None],
    more={"shape": [(2, 3, 96), (3, 1, 128), (17, 2, 64)], "dims": [48, 32]},
)
def rope_multi(bench: Bench, dtype: DType, mode: str, shape: tuple[int, int, int], dims: int | None) -> None:
    tokens, _, width = shape
    pairs = width // 2 if mode == "vision" else (dims or width) // 2
    sections = (pairs // 4, pairs - pairs // 4) if mode == "vision" else (pairs // 4, pairs // 3, pairs // 3, 1)
    x, out = bench.normal(*shape, dtype=dtype), bench.out(*shape, dtype=dtype)
    positions = bench.integers(-5, 5000, 4, tokens, dtype=DType.I32)
    options = {"mode": mode, "sections": sections, "dims": 2 * pairs, "base": 10000.0}
    bench.run(ops.rope_multi, bench.put(x), bench.put(positions), **options, out=out)
    angles = np.empty((tokens, pairs))
    for pair in range(pairs):
        axis, step = multi_axis(mode, pair % sum(sections), sections)
        exponent = 2 * step / pairs if mode == "vision" else pair / pairs
        angles[:, pair] = positions[axis] * 10000.0**-exponent
    bench.close(out, rotated(x, angles[:, None]))


def multi_axis(mode: str, sector: int, sections: tuple[int, ...]) -> tuple[int, int]:
    """The axis of a pair, and its number within the axis's section."""
    if mode == "imrope":
        for axis in range(3):
            if sector % 3 == axis and sector < 3 * sections[axis]:
                return axis, sector
        return 3, sector
    ends = np.cumsum(sections)
    axis = int(np.searchsorted(ends, sector, side="right"))
    return axis, sector - int(ends[axis] - sections[axis])


@row("rope_2d", dtype=FLOATS, shape=[(5, 2, 64)], more={"shape": [(3, 1, 4), (2, 3, 72), (9, 2, 128)]})
def rope_2d(bench: Bench, dtype: DType, shape: tuple[int, int, int]) -> None:
    x, out, half = bench.normal(*shape, dtype=dtype), bench.out(*shape, dtype=dtype), shape[-1] // 2
    positions = bench.integers(0, 2000, 2, shape[0])
    bench.run(ops.rope_2d, bench.put(x), bench.put(positions), out=out)
    turned = [
        rotated(x[..., i * half : (i + 1) * half], positions[i][:, None, None] * speeds(half // 2)) for i in (0, 1)
    ]
    bench.close(out, np.concatenate(turned, -1))
