"""Mixture of experts: sorting by expert, gathering rows, gated activations, and weighted sums."""

from __future__ import annotations

from typing import NamedTuple

from ...dtypes import DType
from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..op import Indices, Output, op
from ..support import SIMD, check_dtype, check_shape, kernel, one_dtype, result, rows_of, shown

__all__ = [
    "ExpertOrder",
    "moe_geglu",
    "moe_permute",
    "moe_sort",
    "moe_swiglu",
    "moe_unpermute",
    "moe_weighted_reduce",
    "moe_weighted_sum",
]


class ExpertOrder(NamedTuple):
    """The slots `token * top_k + k` sorted by expert; all u32."""

    counts: MlxBuffer
    """Slots per expert."""
    offsets: MlxBuffer
    """Where each expert's slots begin, and at the end the number of slots with a valid expert."""
    order: MlxBuffer
    """The slots, in stable order per expert; those without a valid expert come last."""
    places: MlxBuffer
    """The position of each slot in `order`, [tokens, top_k]."""


@op("counts, offsets, order, places of a stable sort of ids", (DType.U32,))
def moe_sort(enc: Encoder, ids: Indices, *, experts: int) -> ExpertOrder:
    """Sorts the slots of ids [tokens, top_k] by expert, so that each expert's rows are contiguous."""
    check_dtype("ids", ids, (DType.U32,))
    if ids.ndim != 2:
        raise InvalidArgument(f"ids is {shown(ids)}, expected [tokens, top_k]")
    if experts < 1:
        raise InvalidArgument(f"experts is {experts}, expected at least 1")
    shapes = ((experts,), (experts + 1,), (ids.size,), ids.shape)
    order = ExpertOrder(*(enc.empty(shape, DType.U32) for shape in shapes))
    pipeline = kernel(enc, "moe_experts", "moe_sort")
    enc.dispatch(pipeline, ids, *map(Out, order), ids.size, experts, threadgroups=experts + 1, group=SIMD)
    return order


@op("out[i] = x[order[i] // top_k]")
def moe_permute(enc: Encoder, x: MlxBuffer, order: Indices, *, top_k: int, out: Output = None) -> MlxBuffer:
    """The rows of x [tokens, width] for the slots in `order`: [tokens * top_k, width]."""
    check_dtype("x", x)
    tokens, width = _table("x", x)
    check_dtype("order", order, (DType.U32,))
    check_shape("order", order, (tokens * top_k,), "top_k slots for each row of x")
    out = result(enc, out, (tokens * top_k, width), x.dtype)
    pipeline = kernel(enc, "moe_experts", f"moe_permute_{x.dtype.size}")
    enc.dispatch(pipeline, x, order, Out(out), width, tokens, top_k, threads=(width, tokens * top_k))
    return out


@op("out[t] = sum_k weights[t, k] * y[places[t, k]] (+ residual)")
def moe_unpermute(
    enc: Encoder,
    y: MlxBuffer,
    places: Indices,
    weights: MlxBuffer,
    residual: MlxBuffer | None = None,
    *,
    out: Output = None,
) -> MlxBuffer:
    """Returns the rows y [tokens * top_k, width] of sorted slots to their tokens, weighted and summed."""
    slots, width = _table("y", y)
    tokens, top_k = _check_weights(weights, slots)
    check_dtype("places", places, (DType.U32,))
    check_shape("places", places, (tokens, top_k), "the shape of weights")
    rows = y.reshape(tokens, top_k, width)
    return _reduce(enc, rows, weights, residual=residual, places=places, out=out)


@op("sum_k weights_k * y_k")
def moe_weighted_sum(enc: Encoder, y: MlxBuffer, weights: MlxBuffer, *, out: Output = None) -> MlxBuffer:
    """The experts' rows y [tokens, top_k, width] summed with f32 weights [tokens, top_k]."""
    return _reduce(enc, y, weights, out=out)


@op("sum_k weights_k * y_k + sigmoid(shared_logit) * shared (+ residual)")
def moe_weighted_reduce(
    enc: Encoder,
    y: MlxBuffer,
    weights: MlxBuffer,
    shared: MlxBuffer,
    shared_logit: MlxBuffer,
    residual: MlxBuffer | None = None,
    *,
    out: Output = None,
) -> MlxBuffer:
    """The weighted sum of y [tokens, top_k, width], plus the shared expert's row [tokens, width] gated by its logit.

    `shared_logit` is the raw logit of each token, f32.
    """
    check_dtype("shared_logit", shared_logit, (DType.F32,))
    gated = (shared, shared_logit)
    return _reduce(enc, y, weights, gated, residual, out=out)


@op("silu(gate) * up of rows gate || up")
def moe_swiglu(enc: Encoder, gate_up: MlxBuffer, *, out: Output = None) -> MlxBuffer:
    """SiLU of the first half of each row, times the second half."""
    return _gated(enc, gate_up, False, out)


@op("gelu_tanh(gate) * up of rows gate || up")
def moe_geglu(enc: Encoder, gate_up: MlxBuffer, *, out: Output = None) -> MlxBuffer:
    """The tanh form of GELU of the first half of each row, times the second half."""
    return _gated(enc, gate_up, True, out)


def _gated(enc: Encoder, gate_up: MlxBuffer, gelu: bool, out: Output) -> MlxBuffer:
    check_dtype("gate_up", gate_up)
    rows, both = rows_of("gate_up", gate_up)
    if both % 2:
        raise InvalidArgument(f"gate_up is {shown(gate_up)}, expected a last axis of two halves")
    n = both // 2
    out = result(enc, out, (*gate_up.shape[:-1], n), gate_up.dtype)
    pipeline = kernel(enc, "moe_experts", f"moe_gated_{gate_up.dtype}")
    enc.dispatch(pipeline, gate_up, Out(out), n, gelu, threads=(n, rows))
    return out


def _reduce(
    enc: Encoder,
    y: MlxBuffer,
    weights: MlxBuffer,
    gated: tuple[MlxBuffer, MlxBuffer] | None = None,
    residual: MlxBuffer | None = None,
    places: MlxBuffer | None = None,
    out: Output = None,
) -> MlxBuffer:
    """One kernel for every weighted sum; unused inputs are bound to arbitrary buffers."""
    shared, logit = gated or (None, None)
    dtype = one_dtype(y=y, shared=shared, residual=residual)
    if y.ndim != 3:
        raise InvalidArgument(f"y is {shown(y)}, expected [tokens, top_k, width]")
    tokens, top_k, width = y.shape
    _check_weights(weights, tokens * top_k)
    check_shape("weights", weights, (tokens, top_k), "one for each row of y")
    for name, each in (("shared", shared), ("residual", residual)):
        if each is not None:
            check_shape(name, each, (tokens, width), "a row for each token")
    if logit is not None:
        check_shape("shared_logit", logit, (tokens,), "one for each token")
    out = result(enc, out, (tokens, width), dtype)
    pipeline = kernel(enc, "moe_experts", f"moe_reduce_{dtype}")
    has = bytes((places is not None, shared is not None, residual is not None))
    bound = (places or weights, shared or y, logit or weights, residual or y)
    enc.dispatch(pipeline, y, weights, *bound, Out(out), width, top_k, tokens * top_k, has, threads=(width, tokens))
    return out


def _table(name: str, buffer: MlxBuffer) -> tuple[int, int]:
    if buffer.ndim != 2:
        raise InvalidArgument(f"{name} is {shown(buffer)}, expected two axes")
    return buffer.shape[0], buffer.shape[1]


def _check_weights(weights: MlxBuffer, slots: int) -> tuple[int, int]:
    check_dtype("weights", weights, (DType.F32,))
    tokens, top_k = _table("weights", weights)
    if tokens * top_k != slots:
        raise InvalidArgument(f"weights is {shown(weights)}, expected one for each of {slots} rows of y")
    return tokens, top_k
