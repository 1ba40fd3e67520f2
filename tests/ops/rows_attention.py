"""Rows of attention: types, head dims, masks, options, lengths, layouts and quantised caches."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py import DType, ops

from .attention_reference import Array, attention, dequantise, quantise
from .bench import Bench
from .table import FLOATS, row

DIMS = [64, 80, 128, 256]
MORE_DIMS = [96, 192, 512]


def inputs(
    bench: Bench, dtype: DType, queries: int, keys: int, dim: int, *, batch: int = 1, heads: tuple[int, int] = (2, 1)
) -> tuple[Array, Array, Array]:
    q = bench.normal(batch, heads[0], queries, dim, dtype=dtype)
    k, v = (bench.normal(batch, heads[1], keys, dim, dtype=dtype) for _ in "kv")
    return q, k, v


def check(bench: Bench, q: Array, k: Array, v: Array, **options: Any) -> None:
    """Runs the op on arrays and compares; `options` are those of the reference too."""
    scale = q.shape[-1] ** -0.5
    out = bench.out(*q.shape[:3], v.shape[3], dtype=DType.of(q.dtype))
    buffers = {name: bench.put(each) if isinstance(each, np.ndarray) else each for name, each in options.items()}
    bench.run(ops.sdpa, bench.put(q), bench.put(k), bench.put(v), scale=scale, out=out, **buffers)
    bench.close(out, attention(q, k, v, scale, **options))


@row(
    "sdpa",
    dtype=[DType.F32],
    dim=DIMS,
    queries=[1, 35],
    more={"dtype": [DType.F16, DType.BF16], "dim": MORE_DIMS, "queries": [4, 9]},
)
def sdpa_dims(bench: Bench, dtype: DType, dim: int, queries: int) -> None:
    check(bench, *inputs(bench, dtype, queries, 67, dim), causal=True)


@row(
    "sdpa",
    dtype=FLOATS,
    queries=[1, 9],
    keys=[1, 31, 33, 257],
    heads=[(2, 1)],
    more={"queries": [8, 33], "keys": [64, 1025], "heads": [(6, 2)]},
)
def sdpa_lengths(bench: Bench, dtype: DType, queries: int, keys: int, heads: tuple[int, int]) -> None:
    check(bench, *inputs(bench, dtype, queries, keys, 64, heads=heads))


@row("sdpa", queries=[1, 3], keys=[1100, 2049], heads=[(1, 1), (4, 1)], more={"queries": [2, 8], "keys": [4097]})
def sdpa_splits(bench: Bench, queries: int, keys: int, heads: tuple[int, int]) -> None:
    check(bench, *inputs(bench, DType.F32, queries, keys, 64, heads=heads), causal=True)


MASKS = {  # batch, heads, and whether each query has a row
    "rows": (1, 1, True),
    "all": (2, 4, True),
    "batch": (2, 1, False),
    "heads": (1, 4, False),
}


@row(
    "sdpa",
    kind=[DType.BOOL, DType.F32],
    shape=list(MASKS),
    queries=[1, 34],
    causal=[False],
    dtype=[DType.F32],
    more={"kind": [DType.F16], "causal": [True], "dtype": [DType.BF16]},
)
def sdpa_masks(bench: Bench, kind: DType, shape: str, queries: int, causal: bool, dtype: DType) -> None:
    keys = 45
    batch, heads, by_query = MASKS[shape]
    axes = (batch, heads, queries if by_query else 1, keys)[2 if shape == "rows" else 0 :]
    mask = bench.rng.random(axes) > 0.4
    mask[..., 0] = True  # no row without a key
    given = mask if kind is DType.BOOL else np.where(mask, bench.rng.normal(size=axes), -np.inf).astype(kind.numpy)
    check(bench, *inputs(bench, dtype, queries, keys, 64, batch=2, heads=(4, 2)), mask=given, causal=causal)


OPTIONS: dict[str, dict[str, Any]] = {
    "softcap": {"softcap": 1.5},
    "window": {"window": 20, "causal": True},
    "window_1": {"window": 1, "causal": True},
    "window_only": {"window": 33},
    "sinks": {"sinks": True},
    "together": {"softcap": 2.0, "window": 39, "sinks": True, "causal": True},
}


@row(
    "sdpa",
    option=list(OPTIONS),
    queries=[1, 40],
    heads=[(4, 4), (4, 1)],
    keys=[77],
    more={"queries": [5], "heads": [(4, 2)], "keys": [300]},
)
def sdpa_options(bench: Bench, option: str, queries: int, heads: tuple[int, int], keys: int) -> None:
    options = dict(OPTIONS[option])
    if "sinks" in options:
        options["sinks"] = bench.normal(heads[0], scale=2.0)
    check(bench, *inputs(bench, DType.F32, queries, keys, 64, heads=heads), **options)


@row(
    "sdpa",
    hidden=["bool", "added", "causal", "bool_sinks", "added_sinks"],
    queries=[4, 20],
    dtype=[DType.F32],
    more={"dtype": [DType.F16, DType.BF16]},
)
def sdpa_hidden_rows(bench: Bench, hidden: str, queries: int, dtype: DType) -> None:
    """Rows without a key: the mean of all values under a boolean mask, NaN under an added one, 0 with sinks."""
    keys = 3 if hidden == "causal" else 70
    mask = np.ones((queries, keys), bool)
    mask[1:3] = False
    options: dict[str, Any] = {"causal": True} if hidden == "causal" else {"mask": mask}
    if hidden.startswith("added"):
        options["mask"] = np.where(mask, 0, -np.inf).astype(np.float32)
    if hidden.endswith("sinks"):
        options["sinks"] = bench.normal(2, dtype=dtype)
    check(bench, *inputs(bench, dtype, queries, keys, 64), **options)


@row(
    "sdpa",
    length=[1, 39, 40, 41, 95],
    queries=[1, 12],
    window=[None, 17],
    by_buffer=[True],
    more={"length": [0, 1000], "queries": [3], "by_buffer": [False]},
)
def sdpa_cache(bench: Bench, length: int, queries: int, window: int | None, by_buffer: bool) -> None:
    """A cache of 40 rows per head, a ring where more were written; what was not written is never looked at."""
    q, k, v = inputs(bench, DType.F32, queries, 40, 64, batch=2)
    lengths = [length, length // 2 + 1] if by_buffer else [length] * 2
    for b, each in enumerate(lengths):
        k[b, :, each:] = v[b, :, each:] = np.nan
    out = bench.out(*q.shape)
    options: dict[str, Any] = {"causal": True, "window": window}
    given = bench.put(np.array(lengths, np.uint32)) if by_buffer else length
    bench.run(ops.sdpa, *map(bench.put, (q, k, v)), scale=0.125, length=given, ring=length > 40, out=out, **options)
    bench.close(out, attention(q, k, v, 0.125, lengths=lengths, **options))


@row("sdpa", cache=[DType.F16, DType.BF16], queries=[1, 20], more={"queries": [8, 33]})
def sdpa_cast(bench: Bench, cache: DType, queries: int) -> None:
    q, k, v = inputs(bench, DType.F32, queries, 50, 64)
    check(bench, q, k.astype(cache.numpy), v.astype(cache.numpy), causal=True)


@row("sdpa", q_first=[False, True], kv_first=[False, True], queries=[2, 17], more={"queries": [40]})
def sdpa_tokens_first(bench: Bench, q_first: bool, kv_first: bool, queries: int) -> None:
    q, k, v = inputs(bench, DType.F32, queries, 41, 64, batch=2, heads=(6, 3))
    swap = {False: lambda x: x, True: lambda x: x.swapaxes(1, 2)}
    given = bench.put(swap[q_first](q)), bench.put(swap[kv_first](k)), bench.put(swap[kv_first](v))
    out = bench.out(*given[0].shape)
    bench.run(ops.sdpa, *given, scale=0.2, causal=True, tokens_first=q_first, kv_tokens_first=kv_first, out=out)
    bench.close(swap[q_first](out.numpy()), attention(q, k, v, 0.2, causal=True))


@row("sdpa", dims=[(128, 64), (33, 40)], queries=[1, 10], more={"dims": [(192, 128), (8, 512), (72, 300), (1, 1)]})
def sdpa_value_dims(bench: Bench, dims: tuple[int, int], queries: int) -> None:
    """Values of another dim than keys, and dims beyond the usual."""
    q, k, _ = inputs(bench, DType.F32, queries, 37, dims[0])
    check(bench, q, k, bench.normal(1, 1, 37, dims[1]), causal=True)


@row(
    "sdpa",
    dtype=[DType.F32],
    cache=["q8", "q4"],
    group=[32, 64],
    queries=[1, 20],
    dim=[64],
    keys=[33],
    more={"dtype": [DType.F16, DType.BF16], "dim": [128], "keys": [300]},
)
def sdpa_quantised(bench: Bench, dtype: DType, cache: str, group: int, queries: int, dim: int, keys: int) -> None:
    group = 32 if dim % group else group
    q, k, v = inputs(bench, dtype, queries, keys, dim, batch=2)
    bits = int(cache[1:])
    packed = [quantise(each, bits, group) for each in (k, v)]
    keys_, values = (tuple(map(bench.put, each)) for each in packed)
    out = bench.out(*q.shape, dtype=dtype)
    bench.run(ops.sdpa, bench.put(q), keys_, values, scale=dim**-0.5, causal=True, length=keys - 1, out=out)
    k, v = (dequantise(*each, bits) for each in packed)
    bench.quantised(out, attention(q, k, v, dim**-0.5, causal=True, lengths=[keys - 1] * 2))


@row(
    "attention_mask",
    dtype=[DType.BOOL, *FLOATS],
    shape=[(5, 37)],
    window=[None, 3],
    causal=[True],
    more={"shape": [(1, 1), (40, 33)], "causal": [False]},
)
def attention_mask(bench: Bench, dtype: DType, shape: tuple[int, int], window: int | None, causal: bool) -> None:
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.attention_mask, *shape, causal=causal, window=window, dtype=dtype, out=out)
    position, key = shape[1] - shape[0] + np.arange(shape[0])[:, None], np.arange(shape[1])
    seen = (not causal) | (key <= position)
    if window:
        seen = seen & (position - key < window)
    seen = np.broadcast_to(seen, shape)
    bench.exact(out, seen if dtype is DType.BOOL else np.where(seen, 0, -np.inf).astype(dtype.numpy))
