"""Rows by index: gather and embedding lookup; zeros for indices out of range, and -1 is the last row."""

from __future__ import annotations

import math
import struct

from ...dtypes import DType
from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..op import Indices, Output, op
from ..strides import as_bits, parts_of
from ..support import check_dtype, check_shape, kernel, one_dtype, result, shown

__all__ = ["embedding", "gather", "quantized_embedding"]

_BITS, _GROUPS = (2, 3, 4, 5, 6, 8), (32, 64, 128)
_IDS = (DType.U32, DType.I32)


@op("out[i, :] = x[ids[i], :]", tuple(DType), fn=("take", "gather_qmm"))
def gather(enc: Encoder, x: MlxBuffer, ids: Indices, out: Output = None) -> MlxBuffer:
    """Elements along the first axis of x, by u32 or i32 indices of any shape."""
    check_dtype("ids", ids, _IDS)
    if not x.shape:
        raise InvalidArgument(f"x is {shown(x)}, expected at least one axis")
    out = result(enc, out, (*ids.shape, *x.shape[1:]), x.dtype)
    width = math.prod(x.shape[1:])
    parts = parts_of(width)
    enc.dispatch(
        kernel(enc, "indexing", f"gather_{8 * x.dtype.size}", {"PARTS": parts}),
        *(as_bits(x), as_bits(ids), Out(as_bits(out))),
        *(x.shape[0], width, ids.dtype is DType.I32),
        threads=(width // parts, ids.size),
    )
    return out


@op("out[i, :] = table[ids[i], :] * scale")
def embedding(enc: Encoder, ids: Indices, table: MlxBuffer, *, scale: float = 1.0, out: Output = None) -> MlxBuffer:
    """Rows of a table [rows, dims], by u32 or i32 ids of any shape, times `scale`."""
    dtype = one_dtype(table=table)
    check_dtype("ids", ids, _IDS)
    rows, dims = _table("table", table)
    out = result(enc, out, (*ids.shape, dims), dtype)
    parts = parts_of(dims)
    enc.dispatch(
        kernel(enc, "indexing", f"embedding_{dtype}", {"PARTS": parts}),
        *(table, as_bits(ids), Out(out)),
        *(rows, dims, ids.dtype is DType.I32, float(scale)),
        threads=(dims // parts, ids.size),
    )
    return out


@op("out[i, :] = (scales * w + biases)[ids[i], :] * scale", tuple(f"affine{bits}" for bits in _BITS))
def quantized_embedding(
    enc: Encoder,
    ids: Indices,
    w: MlxBuffer,
    scales: MlxBuffer,
    biases: MlxBuffer,
    *,
    group_size: int = 64,
    bits: int = 4,
    scale: float = 1.0,
    dtype: DType | None = None,
    out: Output = None,
) -> MlxBuffer:
    """Rows of a table packed by MLX's `quantize`; `dtype` is the result's type (default: that of the scales)."""
    if bits not in _BITS or group_size not in _GROUPS:
        raise InvalidArgument(f"{bits} bits in groups of {group_size}, expected {_BITS} bits in groups of {_GROUPS}")
    check_dtype("ids", ids, _IDS)
    check_dtype("w", w, (DType.U32,))
    given = one_dtype(scales=scales, biases=biases)
    rows, words = _table("w", w)
    if words * 32 % (bits * group_size):
        raise InvalidArgument(f"w is {shown(w)}, expected rows of whole groups of {group_size} {bits}-bit values")
    dims = words * 32 // bits
    for part, buffer in (("scales", scales), ("biases", biases)):
        check_shape(part, buffer, (rows, dims // group_size), "one for each group of w")
    to = given if dtype is None else dtype
    if to not in (given, DType.F32):
        raise InvalidArgument(f"dtype is {to} and scales is {shown(scales)}, expected {given} or f32")
    out = result(enc, out, (*ids.shape, dims), to)
    place = struct.pack("<3If", rows, dims, ids.dtype is DType.I32, scale)
    constants: dict[int | str, int] = {"BITS": bits, "GROUP_SIZE": group_size}
    pipeline = kernel(enc, "indexing", f"quantized_embedding_{given}_{to}", constants)
    enc.dispatch(pipeline, w, scales, biases, as_bits(ids), Out(out), place, threads=(dims, ids.size))
    return out


def _table(name: str, buffer: MlxBuffer) -> tuple[int, int]:
    if buffer.ndim != 2:
        raise InvalidArgument(f"{name} is {shown(buffer)}, expected rows and columns")
    return buffer.shape[0], buffer.shape[1]
