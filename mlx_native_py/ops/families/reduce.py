"""Reductions along rows: sums, running sums, argmax and argmin."""

from __future__ import annotations

from ...dtypes import DType
from ...encoder import Encoder, Out
from ...memory.buffer import MlxBuffer
from ..op import Output, op
from ..rows import for_rows
from ..support import kernel, one_dtype, result, rows_of

__all__ = ["argmax", "argmin", "cumsum", "row_sum"]


@op("sum(x) of each row", fn=("sum",))
def row_sum(enc: Encoder, x: MlxBuffer, *, out: Output = None) -> MlxBuffer:
    """The sum over the last axis."""
    dtype = one_dtype(x=x)
    rows, length = rows_of("x", x)
    out = result(enc, out, x.shape[:-1], dtype)
    for_rows(enc, kernel(enc, "reduce", f"row_sum_{dtype}"), rows, length, x, Out(out), length)
    return out


@op("x[0] + ... + x[i] of each row; without x[i] unless inclusive; from the end if reverse")
def cumsum(
    enc: Encoder,
    x: MlxBuffer,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    out: Output = None,
) -> MlxBuffer:
    """The running sum along the last axis."""
    dtype = one_dtype(x=x)
    rows, length = rows_of("x", x)
    out = result(enc, out, x.shape, dtype)
    constants: dict[int | str, bool] = {"REVERSE": reverse, "INCLUSIVE": inclusive}
    pipeline = kernel(enc, "reduce", f"cumsum_{dtype}", constants)
    for_rows(enc, pipeline, rows, length, x, Out(out), length)
    return out


@op("the lowest i with x[i] = max(x), and x[i], of each row")
def argmax(enc: Encoder, x: MlxBuffer, *, out: Output = None, value: Output = None) -> tuple[MlxBuffer, MlxBuffer]:
    """The index of the largest value of each row, as u32, and the value; ties give the first, and NaN wins."""
    return _arg_extreme(enc, "argmax", x, out, value)


@op("the lowest i with x[i] = min(x), and x[i], of each row")
def argmin(enc: Encoder, x: MlxBuffer, *, out: Output = None, value: Output = None) -> tuple[MlxBuffer, MlxBuffer]:
    """The index of the smallest value of each row, as u32, and the value; ties give the first, and NaN wins."""
    return _arg_extreme(enc, "argmin", x, out, value)


def _arg_extreme(enc: Encoder, name: str, x: MlxBuffer, out: Output, value: Output) -> tuple[MlxBuffer, MlxBuffer]:
    dtype = one_dtype(x=x)
    rows, length = rows_of("x", x)
    out = result(enc, out, x.shape[:-1], DType.U32)
    value = result(enc, value, x.shape[:-1], dtype)
    pipeline = kernel(enc, "reduce", f"arg_extreme_{dtype}")
    for_rows(enc, pipeline, rows, length, x, Out(out), Out(value), length, name == "argmin")
    return out, value
