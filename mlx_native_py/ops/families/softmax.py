"""Softmax of rows, optionally scaled and masked, and logsumexp."""

from __future__ import annotations

from ...dtypes import DType
from ...encoder import CapturedOpKind, Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..op import FLOATS, Output, op
from ..rows import for_rows
from ..support import check_dtype, kernel, one_dtype, result, rows_of, shown

__all__ = ["logsumexp", "scale_mask_softmax", "softmax"]

_MASKS = (DType.F32, DType.F16, DType.BF16, DType.BOOL)  # in the order of the kernel's kinds


@op("exp(x - max(x)) / sum(exp(x - max(x)))")
def softmax(enc: Encoder, x: MlxBuffer, *, out: Output = None) -> MlxBuffer:
    """The softmax of each row; a row of minus infinities gives NaN."""
    dtype = one_dtype(x=x)
    rows, length = rows_of("x", x)
    out = result(enc, out, x.shape, dtype)
    pipeline = kernel(enc, "softmax", f"softmax_{dtype}")
    for_rows(enc, pipeline, rows, length, x, Out(out), length, kind=CapturedOpKind.Softmax)
    return out


@op("softmax(x * scale + mask[row % mask rows]); a boolean mask keeps where it is true")
def scale_mask_softmax(
    enc: Encoder,
    x: MlxBuffer,
    mask: MlxBuffer,
    *,
    scale: float = 1.0,
    out: Output = None,
) -> MlxBuffer:
    """The softmax of scaled rows with a mask, which is added, or boolean (true: keep).

    The mask may have fewer rows than x, and then repeats: [queries, keys] for x[..., queries, keys].
    """
    dtype = one_dtype(FLOATS, x=x)
    check_dtype("mask", mask, _MASKS)
    rows, length = rows_of("x", x)
    mask_rows, mask_length = rows_of("mask", mask)
    if mask_length != length or rows % mask_rows:
        raise InvalidArgument(f"mask is {shown(mask)}, expected rows of {length}, as many as divide {rows}")
    out = result(enc, out, x.shape, dtype)
    pipeline = kernel(enc, "softmax", f"scale_mask_softmax_{dtype}")
    kind = _MASKS.index(mask.dtype)
    for_rows(enc, pipeline, rows, length, x, mask, Out(out), length, scale, mask_rows, kind)
    return out


@op("max(x) + log(sum(exp(x - max(x)))) of each row")
def logsumexp(enc: Encoder, x: MlxBuffer, *, out: Output = None) -> MlxBuffer:
    """The logarithm of the sum of exponentials along the last axis."""
    dtype = one_dtype(x=x)
    rows, length = rows_of("x", x)
    out = result(enc, out, x.shape[:-1], dtype)
    for_rows(enc, kernel(enc, "softmax", f"logsumexp_{dtype}"), rows, length, x, Out(out), length)
    return out
