"""Mixture-of-experts routing: the experts of each token and their weights."""

from __future__ import annotations

from ...dtypes import DType
from ...encoder import Encoder
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..op import Output, op
from ..support import SIMD, check_dtype, check_shape, kernel, shown

__all__ = ["moe_gate", "moe_softmax_topk"]

_MOST_EXPERTS = 8192
"""Limit of moe_gate, which keeps a token's logits in threadgroup memory."""


@op("ids, p of the top_k largest p = softmax(logits), ties to the lower id; p / sum(p) * per_expert_scale[ids]")
def moe_softmax_topk(
    enc: Encoder,
    logits: MlxBuffer,
    top_k: int,
    per_expert_scale: MlxBuffer | None = None,
    *,
    renormalise: bool = True,
    ids: Output = None,
    weights: Output = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """The experts of each row of logits, u32, and their weights, f32, both [tokens, top_k], largest first.

    `renormalise` makes the weights sum to one before they are scaled per expert.
    """
    check_dtype("logits", logits)
    if logits.ndim != 2:
        raise InvalidArgument(f"logits is {shown(logits)}, expected [tokens, experts]")
    tokens, experts = logits.shape
    ids, weights = _routes(enc, tokens, experts, top_k, ids, weights)
    _check_scale(per_expert_scale, experts)
    pipeline = kernel(enc, "moe", f"moe_softmax_topk_{logits.dtype}")
    scaled = per_expert_scale is not None
    scale = per_expert_scale if scaled else bytes(4)
    enc.dispatch(
        pipeline, logits, scale, ids, weights, experts, top_k, scaled, renormalise, threadgroups=tokens, group=SIMD
    )
    return ids, weights


@op("ids of the top_k largest rms_norm(x) * norm @ router.T; softmax over them * per_expert_scale[ids], / its sum")
def moe_gate(
    enc: Encoder,
    hidden: MlxBuffer,
    router: MlxBuffer,
    norm: MlxBuffer,
    top_k: int,
    per_expert_scale: MlxBuffer | None = None,
    *,
    eps: float = 1e-6,
    ids: Output = None,
    weights: Output = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """Norm, router matmul, top-k and weights in one: u32 and f32 [tokens, top_k], largest logits first.

    `router` is f32 [experts, width] and `norm` f32 [width]; the weights of a token sum to one, scaled or not.
    """
    check_dtype("hidden", hidden)
    if hidden.ndim != 2 or router.ndim != 2:
        raise InvalidArgument(
            f"hidden is {shown(hidden)} and router {shown(router)}, expected [tokens, width] and [experts, width]"
        )
    tokens, width = hidden.shape
    experts = router.shape[0]
    check_dtype("router", router, (DType.F32,))
    check_shape("router", router, (experts, width), "a row per expert, as wide as hidden")
    check_dtype("norm", norm, (DType.F32,))
    check_shape("norm", norm, (width,), "the width of hidden")
    if experts > _MOST_EXPERTS:
        raise InvalidArgument(f"router has {experts} experts, expected at most {_MOST_EXPERTS}")
    ids, weights = _routes(enc, tokens, experts, top_k, ids, weights)
    _check_scale(per_expert_scale, experts)
    pipeline = kernel(enc, "moe", f"moe_gate_{hidden.dtype}")
    scaled = per_expert_scale is not None
    scale = per_expert_scale if scaled else bytes(4)
    args = (hidden, router, norm, scale, ids, weights, width, experts, top_k, eps, scaled)
    enc.dispatch(pipeline, *args, threadgroups=tokens, group=SIMD * min(8, experts), shared=experts * 4)
    return ids, weights


def _routes(
    enc: Encoder,
    tokens: int,
    experts: int,
    top_k: int,
    ids: Output,
    weights: Output,
) -> tuple[MlxBuffer, MlxBuffer]:
    if not 1 <= top_k <= experts:
        raise InvalidArgument(f"top_k is {top_k}, expected 1 to {experts}, the number of experts")
    for name, given, dtype in (("ids", ids, DType.U32), ("weights", weights, DType.F32)):
        if given is not None:
            check_dtype(name, given, (dtype,))
            check_shape(name, given, (tokens, top_k), "[tokens, top_k]")
    return ids or enc.empty((tokens, top_k), DType.U32), weights or enc.empty((tokens, top_k), DType.F32)


def _check_scale(scale: MlxBuffer | None, experts: int) -> None:
    if scale is not None:
        check_dtype("per_expert_scale", scale, (DType.F32,))
        check_shape("per_expert_scale", scale, (experts,), "one for each expert")
