"""Elementwise arithmetic, casts and fills."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dtypes import INTEGERS, DType
from ...encoder import CapturedOpKind, Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..flat import for_each
from ..op import FLOATS, Output, op
from ..strides import as_bits
from ..support import check_dtype, kernel, one_dtype, result, shown

__all__ = ["add", "cast", "div", "fill", "mul", "scalar_mul", "sub"]

NUMBERS = (*FLOATS, *INTEGERS)


@op("a + b", NUMBERS)
def add(enc: Encoder, a: MlxBuffer, b: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The sum of two buffers of one shape, or of a and rows b that repeat along its last axes, such as a bias.

    Integers wrap around, also in `sub` and `mul`.
    """
    return _two(enc, "add", a, b, out, CapturedOpKind.ElemAdd, NUMBERS)


@op("a * b", NUMBERS, fn=("multiply",))
def mul(enc: Encoder, a: MlxBuffer, b: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The elementwise product; b may repeat along the last axes of a, as in `add`."""
    return _two(enc, "mul", a, b, out, CapturedOpKind.ElemMul, NUMBERS)


@op("a - b", NUMBERS, fn=("subtract",))
def sub(enc: Encoder, a: MlxBuffer, b: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The elementwise difference; b may repeat along the last axes of a, as in `add`."""
    return _two(enc, "sub", a, b, out, CapturedOpKind.Other, NUMBERS)


@op("a / b", fn=("divide",))
def div(enc: Encoder, a: MlxBuffer, b: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The elementwise quotient; b may repeat along the last axes of a, as in `add`."""
    return _two(enc, "div", a, b, out, CapturedOpKind.Other, FLOATS)


@op("x * s", fn=("multiply",))
def scalar_mul(enc: Encoder, x: MlxBuffer, s: float, out: Output = None) -> MlxBuffer:
    """A buffer times a number, computed in float."""
    dtype = one_dtype(x=x)
    out = result(enc, out, x.shape, dtype)
    return for_each(enc, kernel(enc, "elementwise", f"scalar_mul_{dtype}"), (x,), out, float(s), counted=True)


@op("x, rounded to the nearest value of another type", fn=("astype",))
def cast(enc: Encoder, x: MlxBuffer, dtype: Any, out: Output = None) -> MlxBuffer:
    """Converts to f32, f16 or bf16; values out of range become infinite."""
    check_dtype("x", x)
    to = DType.of(dtype)
    if to is x.dtype or to not in FLOATS:
        others = " or ".join(str(each) for each in FLOATS if each is not x.dtype)
        raise InvalidArgument(f"x is {shown(x)} and dtype is {to}, expected {others}")
    out = result(enc, out, x.shape, to)
    return for_each(enc, kernel(enc, "elementwise", f"cast_{x.dtype}_{to}"), (x,), out)


@op("value", tuple(DType), fn=("full",))
def fill(enc: Encoder, out: MlxBuffer, value: float) -> MlxBuffer:
    """Sets all elements to one value, rounded to the buffer's type."""
    try:
        with np.errstate(over="ignore"):
            bits = np.asarray(value).astype(out.dtype.numpy) if out.dtype.is_float else out.dtype.numpy.type(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"value is {value!r}, which no {out.dtype} can hold") from None
    for_each(enc, kernel(enc, "elementwise", f"fill_{8 * out.dtype.size}"), (), as_bits(out), bits.tobytes())
    return out


def _two(
    enc: Encoder,
    name: str,
    a: MlxBuffer,
    b: MlxBuffer,
    out: Output,
    kind: CapturedOpKind,
    allowed: tuple[DType, ...],
) -> MlxBuffer:
    dtype = one_dtype(allowed, a=a, b=b)
    out = result(enc, out, a.shape, dtype)
    if a.shape != b.shape:
        return _rows(enc, name, a, b, out)
    if dtype in INTEGERS:
        pipeline = kernel(enc, "integer", f"integer_{name}_{8 * dtype.size}")
        for_each(enc, pipeline, (as_bits(a), as_bits(b)), as_bits(out))
        return out
    pipeline = kernel(enc, "elementwise", f"elementwise_{name}_{dtype}")
    return for_each(enc, pipeline, (a, b), out, counted=True, kind=kind)


def _rows(enc: Encoder, name: str, a: MlxBuffer, b: MlxBuffer, out: MlxBuffer) -> MlxBuffer:
    """Applies b to every row of a. Without a kind, since ElemAdd and ElemMul imply operands of one shape."""
    width = b.size
    if width > 1 and a.shape[-b.ndim :] != b.shape:
        raise InvalidArgument(f"b is {shown(b)}, expected the shape of a, {shown(a)}, or its last axes")
    threads = (width, a.size // width)
    if a.dtype in INTEGERS:
        pipeline = kernel(enc, "integer", f"integer_{name}_row_{8 * a.dtype.size}")
        enc.dispatch(pipeline, as_bits(a), as_bits(b), Out(as_bits(out)), width, threads=threads)
    else:
        pipeline = kernel(enc, "elementwise", f"elementwise_{name}_row_{a.dtype}")
        enc.dispatch(pipeline, a, b, Out(out), width, threads=threads)
    return out
