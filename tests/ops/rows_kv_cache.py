"""Rows of the caches of keys and values."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, ops

from .attention_reference import Array, quantise
from .bench import Bench
from .table import FLOATS, row

CAPACITY = 9


def written(cache: Array, new: Array, positions: list[int], ring: bool) -> Array:
    """The cache with the new rows [batch, heads, tokens, ...] in it."""
    result = cache.copy()
    for b, position in enumerate(positions):
        for token in range(new.shape[2]):
            slot = (position + token) % CAPACITY if ring else position + token
            if slot < CAPACITY:
                result[b, :, slot] = new[b, :, token]
    return result


@row(
    "kv_cache_copy",
    dtype=FLOATS,
    position=[0, 4],
    tokens=[1, 5],
    ring=[False, True],
    dim=[64],
    layout=["heads"],
    more={"position": [4_000_000_000], "tokens": [20], "dim": [33], "layout": ["tokens", "no_batch"]},
)
def kv_cache_copy(bench: Bench, dtype: DType, position: int, tokens: int, ring: bool, dim: int, layout: str) -> None:
    """By a buffer of positions, which leaves out what has no place; the values have another dim."""
    tokens = tokens if ring else min(tokens, CAPACITY)
    batch = 1 if layout == "no_batch" else 2
    keys, values = (bench.normal(batch, 3, tokens, d, dtype=dtype) for d in (dim, dim + 16))
    caches = [bench.normal(batch, 3, CAPACITY, each.shape[3], dtype=dtype) for each in (keys, values)]
    positions = [position, 3][:batch]
    given = [keys, values] if layout == "heads" else [keys.swapaxes(1, 2), values.swapaxes(1, 2)]
    buffers = [bench.put(cache, changes=True) for cache in caches]
    bench.run(
        ops.kv_cache_copy,
        *(bench.put(each[0] if layout == "no_batch" else each) for each in given),
        *buffers,
        position=bench.put(np.array(positions, np.uint32)),
        ring=ring,
        tokens_first=layout == "tokens",
    )
    for new, cache, buffer in zip((keys, values), caches, buffers, strict=True):
        bench.exact(buffer, written(cache, new, positions, ring))


@row(
    "kv_cache_copy",
    dtype=[DType.F32],
    cache=[DType.F16, DType.BF16],
    position=[0, 7],
    more={"position": [6, 8], "cache": [DType.F32]},
)
def kv_cache_copy_cast(bench: Bench, dtype: DType, cache: DType, position: int) -> None:
    """At a number; the caches [heads, capacity, dim] in another type."""
    new = bench.normal(2, 3, 64, dtype=dtype)
    new[0, 0, :4] = np.nan, np.inf, -np.inf, 1e-7
    before = [bench.normal(3, CAPACITY, 64, dtype=cache) for _ in "kv"]
    position = min(position, CAPACITY - 2)
    buffers = [bench.put(each, changes=True) for each in before]
    bench.run(ops.kv_cache_copy, bench.put(new), bench.put(-new), *buffers, position=position)
    for sign, cache_before, buffer in zip((1, -1), before, buffers, strict=True):
        expected = cache_before.copy()
        expected[:, position : position + 2] = (sign * new).astype(cache.numpy).swapaxes(0, 1)
        bench.exact(buffer, expected)


@row("kv_cache_copy", dtype=[DType.F16, DType.BF16], cache=[DType.F32], ring=[True], more={"ring": [False]})
def kv_cache_copy_widen(bench: Bench, dtype: DType, cache: DType, ring: bool) -> None:
    new = bench.normal(1, 2, 3, 40, dtype=dtype)
    buffers = [bench.put(np.zeros((1, 2, CAPACITY, 40), np.float32), changes=True) for _ in "kv"]
    bench.run(ops.kv_cache_copy, bench.put(new), bench.put(new), *buffers, position=6, ring=ring)
    expected = written(np.zeros((1, 2, CAPACITY, 40), np.float32), new.astype(np.float32), [6], ring)
    for buffer in buffers:
        bench.exact(buffer, expected)


@row(
    "kv_cache_quantize",
    dtype=FLOATS,
    cache=["q8", "q4"],
    group=[32, 64],
    tokens=[3],
    ring=[False],
    more={"tokens": [1, 12], "ring": [True]},
)
def kv_cache_quantize(bench: Bench, dtype: DType, cache: str, group: int, tokens: int, ring: bool) -> None:
    bits, dim, tokens = int(cache[1:]), 128, tokens if ring else min(tokens, CAPACITY)
    new = [bench.normal(2, 2, tokens, dim, dtype=dtype, scale=3.0) for _ in "kv"]
    new[0][0, 0, 0, :64], new[1][1, 1, 0, 64:] = 0, np.abs(new[1][1, 1, 0, 64:])
    before = [[bench.integers(0, 9, 2, 2, CAPACITY, dim * bits // 32)] + [
        bench.normal(2, 2, CAPACITY, dim // group, dtype=dtype) for _ in "sb"
    ] for _ in "kv"]  # fmt: skip
    buffers = [tuple(bench.put(each, changes=True) for each in cache_before) for cache_before in before]
    positions = [2, 5]
    given = bench.put(np.array(positions, np.uint32))
    bench.run(ops.kv_cache_quantize, *map(bench.put, new), *buffers, position=given, ring=ring)
    for rows, cache_before, cache_now in zip(new, before, buffers, strict=True):
        for part, then, now in zip(quantise(rows, bits, group), cache_before, cache_now, strict=True):
            bench.exact(now, written(then, part, positions, ring))
