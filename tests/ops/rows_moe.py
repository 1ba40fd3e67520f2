"""Rows of the ops for mixtures of experts."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row

EXPERTS = [(1, 1), (7, 3), (60, 4), (128, 8)]
MORE_EXPERTS = [(2, 2), (33, 33), (96, 6), (160, 40), (257, 2), (512, 10)]
WIDTHS = [1, 33, 96]


def chosen(logits: Array, top_k: int) -> Array:
    """The largest of each row, the lower index first among equals; NaN goes last."""
    return np.argsort(-np.where(np.isnan(logits), -np.inf, logits), axis=-1, kind="stable")[:, :top_k].astype(np.uint32)


def softmax(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        e = np.exp(x - np.nanmax(x, axis=-1, keepdims=True))
        return np.asarray(e / e.sum(axis=-1, keepdims=True))


def grid_logits(bench: Bench, tokens: int, experts: int, dtype: DType) -> Array:
    """Logits with many ties, exact in every type."""
    return (bench.integers(-20, 20, tokens, experts, dtype=DType.I32) * 0.25).astype(dtype.numpy)


@row(
    "moe_softmax_topk",
    dtype=FLOATS,
    sizes=EXPERTS,
    renormalise=[True],
    scaled=[False],
    more={"sizes": MORE_EXPERTS, "renormalise": [False], "scaled": [True]},
)
def moe_softmax_topk(bench: Bench, dtype: DType, sizes: tuple[int, int], renormalise: bool, scaled: bool) -> None:
    experts, top_k = sizes
    logits = grid_logits(bench, 5, experts, dtype)
    scale = bench.normal(experts)
    ids, weights = bench.out(5, top_k, dtype=DType.U32), bench.out(5, top_k)
    given = bench.put(scale) if scaled else None
    options = {"top_k": top_k, "renormalise": renormalise, "ids": ids, "weights": weights}
    bench.run(ops.moe_softmax_topk, bench.put(logits), per_expert_scale=given, **options)
    exact = logits.astype(np.float64)
    expected = chosen(exact, top_k)
    bench.exact(ids, expected)
    share = np.take_along_axis(softmax(exact), expected, axis=-1)
    share = share / share.sum(axis=-1, keepdims=True) if renormalise else share
    bench.close(weights, share * (scale.astype(np.float64)[expected] if scaled else 1.0))


@row("moe_softmax_topk", dtype=[DType.F32], scaled=[True], sizes=[(60, 8)], more={"sizes": [(3, 2), (100, 7)]})
def moe_routing(bench: Bench, dtype: DType, scaled: bool, sizes: tuple[int, int]) -> None:
    """Scaled weights stay as they are: they do not sum to one."""
    experts, top_k = sizes
    logits, scale = bench.normal(3, experts, dtype=dtype), np.full(experts, 3.0, np.float32)
    _, weights = bench.run(ops.moe_softmax_topk, bench.put(logits), top_k, bench.put(scale))
    bench.close(np.asarray(weights).sum(axis=-1), np.full(3, 3.0))


@row("moe_softmax_topk", dtype=[DType.F32], special=["nan", "inf", "-inf", "all -inf"])
def moe_special(bench: Bench, dtype: DType, special: str) -> None:
    logits = bench.normal(2, 40, dtype=dtype)
    logits[0, ...] = float(special[4:]) if special.startswith("all") else logits[0]
    logits[0, [3, 35]] = float(special.removeprefix("all "))
    ids, weights = bench.run(ops.moe_softmax_topk, bench.put(logits), top_k=39)
    exact = logits.astype(np.float64)
    expected = chosen(exact, 39)
    bench.exact(ids, expected)
    share = np.take_along_axis(softmax(exact), expected, axis=-1)
    bench.close(weights, share / share.sum(axis=-1, keepdims=True))


@row(
    "moe_gate",
    dtype=FLOATS,
    sizes=EXPERTS,
    width=[64, 75],
    scaled=[True],
    more={"sizes": MORE_EXPERTS, "width": [129], "scaled": [False]},
)
def moe_gate(bench: Bench, dtype: DType, sizes: tuple[int, int], width: int, scaled: bool) -> None:
    experts, top_k = sizes
    norm, scale = bench.normal(width), np.exp(bench.normal(experts))
    hidden, router, logits = routed(bench, dtype, experts, norm)
    ids, weights = bench.out(3, top_k, dtype=DType.U32), bench.out(3, top_k)
    given = bench.put(scale) if scaled else None
    options = {"top_k": top_k, "eps": 1e-3, "ids": ids, "weights": weights}
    bench.run(ops.moe_gate, bench.put(hidden), bench.put(router), bench.put(norm), per_expert_scale=given, **options)
    expected = chosen(logits, top_k)
    bench.exact(ids, expected)
    share = softmax(np.take_along_axis(logits, expected, axis=-1))
    share = share * (scale.astype(np.float64)[expected] if scaled else 1.0)
    bench.close(weights, share / share.sum(axis=-1, keepdims=True))


def routed(bench: Bench, dtype: DType, experts: int, norm: Array) -> tuple[Array, Array, Array]:
    """Hidden rows and a router whose logits are apart by more than the last bits of a sum."""
    while True:
        hidden = bench.normal(3, len(norm), dtype=dtype, scale=2.0)
        router = bench.normal(experts, len(norm), scale=0.3)
        x = hidden.astype(np.float64)
        normed = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-3) * norm
        logits = normed @ router.astype(np.float64).T
        if (np.diff(np.sort(logits, axis=-1)) > 1e-5).all():
            return hidden, router, logits


@row(
    "moe_sort",
    dtype=[DType.U32],
    shape=[(1, 1), (5, 3), (40, 4)],
    experts=[1, 8, 61],
    more={"shape": [(2, 8), (33, 1), (64, 10), (7, 65)], "experts": [2, 128]},
)
def moe_sort(bench: Bench, dtype: DType, shape: tuple[int, int], experts: int) -> None:
    """Also with ids that no expert has: those slots come last."""
    ids = bench.integers(0, experts + 2, *shape, dtype=dtype)
    counts, offsets, order, places = bench.run(ops.moe_sort, bench.put(ids), experts=experts)
    flat = np.minimum(ids.ravel(), experts)
    expected = np.argsort(flat, kind="stable").astype(np.uint32)
    number = np.bincount(flat, minlength=experts + 1).astype(np.uint32)
    bench.exact(counts, number[:experts])
    bench.exact(offsets, np.concatenate([[0], np.cumsum(number[:experts])]).astype(np.uint32))
    bench.exact(order, expected)
    bench.exact(places, np.argsort(expected, kind="stable").astype(np.uint32).reshape(shape))


@row("moe_permute", dtype=FLOATS, width=WIDTHS, more={"width": [2, 128, 257]})
def moe_permute(bench: Bench, dtype: DType, width: int) -> None:
    x = bench.normal(9, width, dtype=dtype)
    x[0, 0], x[1, 0] = np.nan, -np.inf
    order = bench.rng.permutation(36).astype(np.uint32)
    out = bench.out(36, width, dtype=dtype)
    bench.run(ops.moe_permute, bench.put(x), bench.put(order), top_k=4, out=out)
    bench.exact(out, x[order // 4])


@row("moe_unpermute", dtype=FLOATS, width=WIDTHS, residual=[False], more={"width": [2, 128, 257], "residual": [True]})
def moe_unpermute(bench: Bench, dtype: DType, width: int, residual: bool) -> None:
    y, weights = bench.normal(36, width, dtype=dtype), bench.normal(9, 4)
    places = bench.rng.permutation(36).astype(np.uint32).reshape(9, 4)
    rest = bench.normal(9, width, dtype=dtype)
    out = bench.out(9, width, dtype=dtype)
    given = bench.put(rest) if residual else None
    bench.run(ops.moe_unpermute, bench.put(y), bench.put(places), bench.put(weights), given, out=out)
    expected = np.einsum("tk,tkw->tw", weights.astype(np.float64), y.astype(np.float64)[places])
    bench.close(out, expected + (rest.astype(np.float64) if residual else 0.0))


@row("moe_weighted_sum", dtype=FLOATS, shape=[(1, 1, 5), (3, 8, 65)], more={"shape": [(4, 2, 128), (2, 40, 33)]})
def moe_weighted_sum(bench: Bench, dtype: DType, shape: tuple[int, int, int]) -> None:
    y, weights = bench.normal(*shape, dtype=dtype), bench.normal(*shape[:2])
    out = bench.out(shape[0], shape[2], dtype=dtype)
    bench.run(ops.moe_weighted_sum, bench.put(y), bench.put(weights), out=out)
    bench.close(out, np.einsum("tk,tkw->tw", weights.astype(np.float64), y.astype(np.float64)))


@row(
    "moe_weighted_reduce",
    dtype=FLOATS,
    shape=[(1, 1, 5), (3, 8, 65)],
    residual=[True],
    more={"shape": [(4, 2, 128), (2, 40, 33)], "residual": [False]},
)
def moe_weighted_reduce(bench: Bench, dtype: DType, shape: tuple[int, int, int], residual: bool) -> None:
    tokens, _, width = shape
    y, weights = bench.normal(*shape, dtype=dtype), bench.normal(*shape[:2])
    shared, logit = bench.normal(tokens, width, dtype=dtype), bench.normal(tokens, scale=3.0)
    rest = bench.normal(tokens, width, dtype=dtype)
    out = bench.out(tokens, width, dtype=dtype)
    given = [bench.put(each) for each in (y, weights, shared, logit)] + [bench.put(rest) if residual else None]
    bench.run(ops.moe_weighted_reduce, *given, out=out)
    expected = np.einsum("tk,tkw->tw", weights.astype(np.float64), y.astype(np.float64))
    expected += shared.astype(np.float64) / (1 + np.exp(-logit.astype(np.float64)))[:, None]
    bench.close(out, expected + (rest.astype(np.float64) if residual else 0.0))


@row("moe_swiglu", dtype=FLOATS, shape=[(2, 3), (5, 33)], more={"shape": [(6, 1), (2, 3, 64), (3, 257)]})
def moe_swiglu(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    both = bench.normal(*shape[:-1], 2 * shape[-1], dtype=dtype, scale=4.0)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.moe_swiglu, bench.put(both), out=out)
    gate, up = np.split(both.astype(np.float64), 2, axis=-1)
    bench.elementwise(out, gate / (1 + np.exp(-gate)) * up)


@row("moe_geglu", dtype=FLOATS, shape=[(2, 3), (5, 33)], more={"shape": [(6, 1), (2, 3, 64), (3, 257)]})
def moe_geglu(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    both = bench.normal(*shape[:-1], 2 * shape[-1], dtype=dtype, scale=2.0)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.moe_geglu, bench.put(both), out=out)
    gate, up = np.split(both.astype(np.float64), 2, axis=-1)
    u = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
    bench.close(out, 0.5 * gate * (1 + np.tanh(u)) * up)
