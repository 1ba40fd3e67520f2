"""Norms of the last axis."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..memory.buffer import MlxBuffer
from .call import call
from .inputs import maybe, whole

__all__ = [
    "head_norm_rope",
    "l2_norm",
    "layer_norm",
    "residual_rms_norm",
    "rms_norm",
    "rms_norm_add",
    "rms_norm_mul",
]


def rms_norm(x: Any, weight: Any = None, eps: float = 1e-5, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """x / sqrt(mean(x^2) + eps) * weight.

    >>> fn.rms_norm(np.float32([[3, 4]]), np.float32([1, 10]), 0.0).numpy().round(3)
    array([[ 0.849, 11.314]], dtype=float32)
    """
    with call(stream) as run:
        return ops.rms_norm(run.enc, run.put(x, "x"), maybe(run, weight, "weight"), eps=eps)  # type: ignore[no-any-return]


def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *, stream: MlxDevice | None = None
) -> MlxBuffer:
    """(x - mean(x)) / sqrt(var(x) + eps) * weight + bias.

    >>> fn.layer_norm(np.float32([[1, 3]]), None, np.float32([5, 5]), 0.0).numpy()
    array([[4., 6.]], dtype=float32)
    """
    with call(stream) as run:
        return ops.layer_norm(  # type: ignore[no-any-return]
            run.enc, run.put(x, "x"), maybe(run, weight, "weight"), maybe(run, bias, "bias"), eps=eps
        )


def l2_norm(x: Any, eps: float = 1e-6, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """x / sqrt(sum(x^2) + eps).

    >>> fn.l2_norm(np.float32([3, 4]), 0.0).numpy()
    array([0.6, 0.8], dtype=float32)
    """
    with call(stream) as run:
        return ops.l2_norm(run.enc, run.put(x, "x"), eps=eps)  # type: ignore[no-any-return]


def residual_rms_norm(
    x: Any,
    residual: Any,
    weight: Any = None,
    eps: float = 1e-5,
    *,
    scale: float = 1.0,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """rms_norm(residual + x) * weight * scale, and residual + x.

    >>> normed, total = fn.residual_rms_norm(np.float32([1, 2]), np.float32([2, 2]))
    >>> total.numpy()
    array([3., 4.], dtype=float32)
    """
    with call(stream) as run:
        given = run.put(x, "x")
        total = run.enc.device.empty(given.shape, given.dtype)
        beside, weights = run.put(residual, "residual"), maybe(run, weight, "weight")
        normed = ops.residual_rms_norm(run.enc, given, beside, weights, eps=eps, scale=scale, sum=total)
        return normed, total


def rms_norm_add(
    x: Any,
    residual: Any,
    weight: Any = None,
    eps: float = 1e-5,
    *,
    scale: float = 1.0,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """(residual + rms_norm(x) * weight) * scale.

    >>> fn.rms_norm_add(np.float32([3, 3]), np.float32([1, 2])).numpy().round(3)
    array([2., 3.], dtype=float32)
    """
    with call(stream) as run:
        beside, weights = run.put(residual, "residual"), maybe(run, weight, "weight")
        return ops.rms_norm_add(  # type: ignore[no-any-return]
            run.enc, run.put(x, "x"), beside, weights, eps=eps, scale=scale
        )


def rms_norm_mul(x: Any, weight: Any, factor: Any, eps: float = 1e-5, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """rms_norm(x) * weight * factor.

    >>> fn.rms_norm_mul(np.float32([3, 3]), None, np.float32([1, 2])).numpy().round(3)
    array([1., 2.], dtype=float32)
    """
    with call(stream) as run:
        weights, factors = maybe(run, weight, "weight"), run.put(factor, "factor")
        return ops.rms_norm_mul(run.enc, run.put(x, "x"), weights, factors, eps=eps)  # type: ignore[no-any-return]


def head_norm_rope(
    x: Any,
    weight: Any,
    positions: Any,
    *,
    dims: int | None = None,
    base: float = 10000.0,
    scale: float = 1.0,
    factors: Any = None,
    eps: float = 1e-6,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """rms_norm of each head of x[tokens, heads, width], then NeoX RoPE.

    >>> fn.head_norm_rope(np.ones((1, 1, 4), "f4"), None, [0]).numpy().round(3)
    array([[[1., 1., 1., 1.]]], dtype=float32)
    """
    with call(stream) as run:
        return ops.head_norm_rope(  # type: ignore[no-any-return]
            run.enc,
            *(run.put(x, "x"), maybe(run, weight, "weight"), whole(run, positions, "positions")),
            dims=dims,
            base=base,
            scale=scale,
            factors=maybe(run, factors, "factors"),
            eps=eps,
        )
