"""Sums, differences and products of numbers of all types; quotients, casts and fills; element by element."""

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
    """The sum of two buffers of one shape; or b is a row, or a few, that every row of a is added to, such as a bias.

    Whole numbers are taken modulo their width, here and in `sub` and `mul`.
    """
    return _two(enc, "add", a, b, out, CapturedOpKind.ElemAdd, NUMBERS)


@op("a * b", NUMBERS, fn=("multiply",))
def mul(enc: Encoder, a: MlxBuffer, b: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The product of two buffers, element by element; b may be a row, or a few, as in `add`."""
    return _two(enc, "mul", a, b, out, CapturedOpKind.ElemMul, NUMBERS)


@op("a - b", NUMBERS, fn=("subtract",))
def sub(enc: Encoder, a: MlxBuffer, b: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The difference of two buffers, element by element; b may be a row, or a few, as in `add`."""
    return _two(enc, "sub", a, b, out, CapturedOpKind.Other, NUMBERS)


@op("a / b", fn=("divide",))
def div(enc: Encoder, a: MlxBuffer, b: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The quotient of two buffers, element by element; b may be a row, or a few, as in `add`."""
    return _two(enc, "div", a, b, out, CapturedOpKind.Other, FLOATS)


@op("x * s", fn=("multiply",))
def scalar_mul(enc: Encoder, x: MlxBuffer, s: float, out: Output = None) -> MlxBuffer:
    """A buffer times a number; the product is made in float."""
    dtype = one_dtype(x=x)
    out = result(enc, out, x.shape, dtype)
    return for_each(enc, kernel(enc, "elementwise", f"scalar_mul_{dtype}"), (x,), out, float(s), counted=True)


@op("x, rounded to the nearest value of another type", fn=("astype",))
def cast(enc: Encoder, x: MlxBuffer, dtype: Any, out: Output = None) -> MlxBuffer:
    """The elements in another type: f32, f16 or bf16; too large ones become infinite."""
    check_dtype("x", x)
    to = DType.of(dtype)
    if to is x.dtype or to not in FLOATS:
        others = " or ".join(str(each) for each in FLOATS if each is not x.dtype)
        raise InvalidArgument(f"x is {shown(x)} and dtype is {to}, expected {others}")
    out = result(enc, out, x.shape, to)
    return for_each(enc, kernel(enc, "elementwise", f"cast_{x.dtype}_{to}"), (x,), out)


@op("value", tuple(DType), fn=("full",))
def fill(enc: Encoder, out: MlxBuffer, value: float) -> MlxBuffer:
    """Writes one value, rounded to the buffer's type, to all of its elements."""
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
    """Every row of a with b. Without a kind: what is tagged ElemAdd or ElemMul has operands of one shape."""
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
