"""Row normalisation: RMS, layer and L2 norm, and RMS norm fused with residuals, products and RoPE."""

from __future__ import annotations

from typing import TypeVar

from ...encoder import CapturedOpKind, Encoder, Out
from ...memory.buffer import MlxBuffer
from ..op import FLOATS, Output, op
from ..positions import Positions, token_places
from ..rope_tables import checked_factors, turns
from ..rows import for_rows
from ..support import SIMD, check_shape, kernel, one_dtype, result, rows_of

__all__ = [
    "head_norm_rope",
    "l2_norm",
    "layer_norm",
    "residual_rms_norm",
    "rms_norm",
    "rms_norm_add",
    "rms_norm_mul",
]

B = TypeVar("B", MlxBuffer, MlxBuffer | None)


@op("x / sqrt(mean(x^2) + eps) * weight")
def rms_norm(
    enc: Encoder,
    x: MlxBuffer,
    weight: MlxBuffer | None = None,
    eps: float = 1e-5,
    *,
    out: Output = None,
) -> MlxBuffer:
    """Divides each row by its root mean square; `weight` is optional."""
    share = 1 / x.shape[-1] if x.shape else 1.0
    return _by_squares(enc, x, weight, eps, share, out, CapturedOpKind.RmsNorm)


@op("x / sqrt(sum(x^2) + eps)")
def l2_norm(enc: Encoder, x: MlxBuffer, eps: float = 1e-6, *, out: Output = None) -> MlxBuffer:
    """Divides each row by its Euclidean length."""
    return _by_squares(enc, x, None, eps, 1.0, out)


def _by_squares(
    enc: Encoder,
    x: MlxBuffer,
    weight: MlxBuffer | None,
    eps: float,
    share: float,
    out: Output,
    kind: CapturedOpKind = CapturedOpKind.Other,
) -> MlxBuffer:
    dtype = one_dtype(x=x, weight=weight)
    rows, length = rows_of("x", x)
    _check_vector("weight", weight, length)
    out = result(enc, out, x.shape, dtype)
    arguments = (x, _or(weight, x), Out(out), length, eps, share, weight is not None)
    for_rows(enc, kernel(enc, "norm", f"rms_norm_{dtype}"), rows, length, *arguments, kind=kind)
    return out


@op("(x - mean(x)) / sqrt(var(x) + eps) * weight + bias")
def layer_norm(
    enc: Encoder,
    x: MlxBuffer,
    weight: MlxBuffer | None = None,
    bias: MlxBuffer | None = None,
    eps: float = 1e-5,
    *,
    out: Output = None,
) -> MlxBuffer:
    """Subtracts the mean of each row and divides by its standard deviation; weight and bias are optional."""
    dtype = one_dtype(x=x, weight=weight, bias=bias)
    rows, length = rows_of("x", x)
    _check_vector("weight", weight, length)
    _check_vector("bias", bias, length)
    out = result(enc, out, x.shape, dtype)
    arguments = (x, _or(weight, x), _or(bias, x), Out(out), length, eps, weight is not None, bias is not None)
    for_rows(enc, kernel(enc, "norm", f"layer_norm_{dtype}"), rows, length, *arguments)
    return out


@op("rms_norm(residual + x) * weight * scale; sum = residual + x")
def residual_rms_norm(
    enc: Encoder,
    x: MlxBuffer,
    residual: MlxBuffer,
    weight: MlxBuffer | None = None,
    eps: float = 1e-5,
    *,
    scale: float = 1.0,
    sum: Output = None,
    out: Output = None,
) -> MlxBuffer:
    """The RMS norm of a sum. The sum itself is written to `sum`, if given, which may be `residual` or `x`."""
    return _around(enc, x, weight, eps, scale, before=residual, sum=sum, out=out)


@op("(residual + rms_norm(x) * weight) * scale")
def rms_norm_add(
    enc: Encoder,
    x: MlxBuffer,
    residual: MlxBuffer,
    weight: MlxBuffer | None = None,
    eps: float = 1e-5,
    *,
    scale: float = 1.0,
    out: Output = None,
) -> MlxBuffer:
    """A residual plus an RMS norm, as in Gemma's post-norms."""
    return _around(enc, x, weight, eps, scale, after=residual, out=out)


@op("rms_norm(x) * weight * factor")
def rms_norm_mul(
    enc: Encoder,
    x: MlxBuffer,
    weight: MlxBuffer | None,
    factor: MlxBuffer,
    eps: float = 1e-5,
    *,
    out: Output = None,
) -> MlxBuffer:
    """An RMS norm times a buffer of the same shape."""
    return _around(enc, x, weight, eps, 1.0, times=factor, out=out)


def _around(
    enc: Encoder,
    x: MlxBuffer,
    weight: MlxBuffer | None,
    eps: float,
    scale: float,
    *,
    before: MlxBuffer | None = None,
    times: MlxBuffer | None = None,
    after: MlxBuffer | None = None,
    sum: Output = None,
    out: Output = None,
) -> MlxBuffer:
    beside = {"factor": times, "residual": _or(before, after), "sum": sum}
    dtype = one_dtype(FLOATS, x=x, weight=weight, **beside)
    rows, length = rows_of("x", x)
    _check_vector("weight", weight, length)
    for each, buffer in beside.items():
        if buffer is not None:
            check_shape(each, buffer, x.shape, "the shape of x")
    out = result(enc, out, x.shape, dtype)
    inputs = (_or(each, x) for each in (weight, before, times, after))
    given = bytes(part is not None for part in (before, weight, times, after, sum))
    arguments = (x, *inputs, Out(out), Out(_or(sum, out)), length, eps, scale, given)
    for_rows(enc, kernel(enc, "norm", f"rms_norm_around_{dtype}"), rows, length, *arguments)
    return out


@op("rope(rms_norm(x) * weight, positions) for each head")
def head_norm_rope(
    enc: Encoder,
    x: MlxBuffer,
    weight: MlxBuffer | None,
    positions: Positions,
    *,
    dims: int | None = None,
    base: float = 10000.0,
    scale: float = 1.0,
    factors: MlxBuffer | None = None,
    eps: float = 1e-6,
    out: Output = None,
) -> MlxBuffer:
    """The RMS norm of each head of x[tokens, heads, width], then NeoX RoPE over its first `dims` values.

    `positions` is a buffer with one per token, or the first one. `factors` divide the frequencies.
    """
    dtype = one_dtype(x=x, weight=weight)
    where, places, (tokens, heads, width) = token_places(x, positions)
    table = turns(dims, width, base, scale, factors is not None)
    _check_vector("weight", weight, width)
    out = result(enc, out, x.shape, dtype)
    buffers = (x, _or(weight, x), where, checked_factors(factors, len(table) // 8), Out(out))
    sizes = (table, heads, width, len(table) // 4, eps, (places.token, places.step))
    pipeline = kernel(enc, "norm", f"head_norm_rope_{dtype}")
    given = (weight is not None, factors is not None)
    enc.dispatch(pipeline, *buffers, *sizes, *given, threadgroups=(heads, tokens), group=SIMD)
    return out


def _check_vector(name: str, vector: MlxBuffer | None, length: int) -> None:
    if vector is not None:
        check_shape(name, vector, (length,), "one per value of a row")


def _or(given: MlxBuffer | None, otherwise: B) -> MlxBuffer | B:
    """A value to bind to a slot that the kernel ignores if nothing was given."""
    return otherwise if given is None else given
