"""Routing of a mixture of experts, and the sum of what they say."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..memory.buffer import MlxBuffer
from .call import call
from .inputs import maybe

__all__ = ["moe_gate", "moe_softmax_topk", "moe_weighted_sum"]


def moe_softmax_topk(
    logits: Any,
    top_k: int,
    *,
    per_expert_scale: Any = None,
    renormalise: bool = True,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """The experts of each row of logits and their weights, largest first; of equal ones the lower comes first.

    >>> ids, weights = fn.moe_softmax_topk(np.log(np.float32([[1, 6, 2, 1]])), 2)
    >>> ids.numpy(), weights.numpy().round(3)
    (array([[1, 2]], dtype=uint32), array([[0.75, 0.25]], dtype=float32))
    """
    with call(stream) as run:
        scale = maybe(run, per_expert_scale, "per_expert_scale")
        return ops.moe_softmax_topk(  # type: ignore[no-any-return]
            run.enc, run.put(logits, "logits"), scale, top_k=top_k, renormalise=renormalise
        )


def moe_gate(
    hidden: Any,
    router: Any,
    norm: Any,
    top_k: int,
    *,
    per_expert_scale: Any = None,
    eps: float = 1e-6,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """The experts and weights of each row of hidden: RMS norm, router, the largest logits, softmax over those.

    >>> ids, weights = fn.moe_gate(np.float32([[2, 2]]), np.eye(2), np.ones(2), 2)
    >>> ids.numpy(), weights.numpy()
    (array([[0, 1]], dtype=uint32), array([[0.5, 0.5]], dtype=float32))
    """
    with call(stream) as run:
        inputs = (run.put(hidden, "hidden"), run.put(router, "router"), run.put(norm, "norm"))
        scale = maybe(run, per_expert_scale, "per_expert_scale")
        return ops.moe_gate(run.enc, *inputs, scale, top_k=top_k, eps=eps)  # type: ignore[no-any-return]


def moe_weighted_sum(y: Any, weights: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The sum over experts of y [tokens, top_k, width] with weights [tokens, top_k].

    >>> fn.moe_weighted_sum(np.float32([[[1, 2], [3, 4]]]), np.float32([[10, 1]])).numpy()
    array([[13., 24.]], dtype=float32)
    """
    with call(stream) as run:
        return ops.moe_weighted_sum(  # type: ignore[no-any-return]
            run.enc, run.put(y, "y"), run.put(weights, "weights")
        )
