"""Fusion rules for pairs of ops with a fused kernel; used by `ComputeGraph.fuse`.

Only for f32: between kernels of a smaller type the intermediate value is rounded, which a fused kernel would not do.
"""

from __future__ import annotations

from ..encoder import Encoder
from ..graph import Arguments, fusion
from ..hazards.ranges import shared_bytes
from ..memory.buffer import MlxBuffer
from .families.activation import gelu_mul, sigmoid_mul, silu_mul
from .families.norm import residual_rms_norm, rms_norm_add, rms_norm_mul
from .families.softmax import scale_mask_softmax

__all__: list[str] = []


@fusion("rms_norm_f32", "elementwise_mul_f32")
def _norm_times(enc: Encoder, norm: Arguments, mul: Arguments, between: MlxBuffer) -> bool:
    factor = _other(mul, between)
    if factor is None or not _is_rms_norm(norm):
        return False
    rms_norm_mul(enc, norm["x"], _weight(norm), factor, eps=norm["eps"], out=mul["out"])
    return True


@fusion("rms_norm_f32", "elementwise_add_f32")
def _norm_plus(enc: Encoder, norm: Arguments, add: Arguments, between: MlxBuffer) -> bool:
    residual = _other(add, between)
    if residual is None or not _is_rms_norm(norm):
        return False
    rms_norm_add(enc, norm["x"], residual, _weight(norm), eps=norm["eps"], out=add["out"])
    return True


@fusion("elementwise_add_f32", "rms_norm_f32", writes_between=True)
def _sum_then_norm(enc: Encoder, add: Arguments, norm: Arguments, between: MlxBuffer) -> bool:
    a, b, x, weight = add["a"], add["b"], norm["x"], _weight(norm)
    if not _is_rms_norm(norm) or not a.shape == b.shape == x.shape == norm["out"].shape:
        return False
    if x.span != between.span or (weight is not None and shared_bytes(weight.span, between.span)):
        return False
    residual_rms_norm(enc, a, b, weight, eps=norm["eps"], sum=between, out=norm["out"])
    return True


@fusion("silu_f32", "elementwise_mul_f32")
def _silu_times(enc: Encoder, silu: Arguments, mul: Arguments, between: MlxBuffer) -> bool:
    up = _other(mul, between)
    if up is None:
        return False
    silu_mul(enc, _like(silu["x"], up), up, mul["out"])
    return True


@fusion("gelu_approx_f32", "elementwise_mul_f32")
def _gelu_times(enc: Encoder, gelu: Arguments, mul: Arguments, between: MlxBuffer) -> bool:
    up = _other(mul, between)
    if up is None:
        return False
    gelu_mul(enc, _like(gelu["x"], up), up, out=mul["out"])
    return True


@fusion("sigmoid_f32", "elementwise_mul_f32")
def _sigmoid_times(enc: Encoder, sigmoid: Arguments, mul: Arguments, between: MlxBuffer) -> bool:
    x = _other(mul, between)
    if x is None:
        return False
    sigmoid_mul(enc, x, _like(sigmoid["x"], x), mul["out"])
    return True


@fusion("elementwise_add_f32", "softmax_f32")
def _mask_then_softmax(enc: Encoder, add: Arguments, softmax: Arguments, between: MlxBuffer) -> bool:
    out = softmax["out"]
    if not add["a"].shape == add["b"].shape == out.shape:
        return False
    scale_mask_softmax(enc, add["a"], add["b"], out=out)
    return True


@fusion("scalar_mul_f32", "scale_mask_softmax_f32")
def _scale_then_softmax(enc: Encoder, mul: Arguments, softmax: Arguments, between: MlxBuffer) -> bool:
    x, mask = softmax["x"], softmax["mask"]
    if softmax["scale"] != 1.0 or x.span != between.span or mask.span == between.span:
        return False
    scale_mask_softmax(enc, mul["x"], mask, scale=mul["s"], out=softmax["out"])
    return True


def _other(pair: Arguments, between: MlxBuffer) -> MlxBuffer | None:
    """The operand that does not come from the first dispatch; None if both do, or if shapes differ."""
    a, b = pair["a"], pair["b"]
    if (a.span == between.span) == (b.span == between.span) or a.shape != b.shape:
        return None
    other: MlxBuffer = b if a.span == between.span else a
    return other


def _like(buffer: MlxBuffer, other: MlxBuffer) -> MlxBuffer:
    return buffer if buffer.shape == other.shape else buffer.reshape(other.shape)


def _is_rms_norm(norm: Arguments) -> bool:
    """Whether the kernel computes an RMS norm; it serves other norms too."""
    return bool(abs(norm["share"] * norm["n"] - 1.0) < 1e-6)


def _weight(norm: Arguments) -> MlxBuffer | None:
    return norm["weight"] if norm["has_weight"] else None
