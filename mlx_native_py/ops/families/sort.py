"""Sorting along rows: sort, argsort and top-k."""

from __future__ import annotations

from ...dtypes import DType
from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..op import Output, op
from ..rows import row_threads
from ..support import SIMD, kernel, one_dtype, result, rows_of, shown

__all__ = ["argsort", "sort", "top_k"]

_BLOCK = 1024  # items sorted per threadgroup
_MERGED_PER_THREAD = 8  # items merged per thread


@op("the indices that put each row in order; of equals the lowest first, NaN last")
def argsort(enc: Encoder, x: MlxBuffer, *, descending: bool = False, out: Output = None) -> MlxBuffer:
    """The indices that sort each row, as u32."""
    one_dtype(x=x)
    rows_of("x", x)
    out = result(enc, out, x.shape, DType.U32)
    _write_indices(enc, _sorted(enc, x, descending), out)
    return out


@op("each row in order, NaN last", remembered=False)
def sort(enc: Encoder, x: MlxBuffer, *, descending: bool = False, out: Output = None) -> MlxBuffer:
    """The sorted values of each row."""
    dtype = one_dtype(x=x)
    rows_of("x", x)
    out = _apart(x, result(enc, out, x.shape, dtype))
    _write_values(enc, x, _sorted(enc, x, descending), out)
    return out


@op(
    "the k largest values of each row in descending order, and their indices; of equals the lowest first, NaN last",
    fn=("top_k", "topk"),
    remembered=False,
)
def top_k(
    enc: Encoder,
    x: MlxBuffer,
    k: int,
    *,
    out: Output = None,
    indices: Output = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """The k largest values of each row, in descending order, and their indices, as u32."""
    dtype = one_dtype(x=x)
    _, length = rows_of("x", x)
    if not 1 <= k <= length:
        raise InvalidArgument(f"k is {k}, expected 1 to {length}, the length of a row")
    out = _apart(x, result(enc, out, (*x.shape[:-1], k), dtype))
    indices = result(enc, indices, (*x.shape[:-1], k), DType.U32)
    items = _largest(enc, x, k) if 2 * k <= _BLOCK else _sorted(enc, x, True)
    _write_values(enc, x, items, out)
    _write_indices(enc, items, indices)
    return out, indices


def _apart(x: MlxBuffer, out: MlxBuffer) -> MlxBuffer:
    """Raises if `out` overlaps x, which is read until the end."""
    (memory, begin, end), (other, first, last) = x.span, out.span
    if memory is other and begin < last and first < end:
        raise InvalidArgument(f"out shares memory with x, {shown(x)}, expected memory of its own")
    return out


def _sorted(enc: Encoder, x: MlxBuffer, descending: bool) -> MlxBuffer:
    """All items of x in order, [rows, length]."""
    length = x.shape[-1]
    width = _block(length)
    items = _sort_blocks(enc, x, width, width, descending)
    other = enc.empty(items.shape, DType.U64) if width < length else items
    while width < length:
        threads = (-(-length // _MERGED_PER_THREAD), items.shape[0])
        enc.dispatch(kernel(enc, "sort", "sort_merge"), items, Out(other), length, width, threads=threads)
        items, other, width = other, items, 2 * width
    return items


def _largest(enc: Encoder, x: MlxBuffer, k: int) -> MlxBuffer:
    """The k largest items in descending order, [rows, k]: selected, then sorted."""
    rows, length = rows_of("x", x)
    items = enc.empty((rows, k), DType.U64)
    pipeline = kernel(enc, "sort", f"top_items_{x.dtype}")
    group = row_threads(pipeline, length, rows)
    enc.dispatch(pipeline, x, Out(items), length, k, threadgroups=rows, group=group)
    return _sort_blocks(enc, items, _block(k), k, True)


def _sort_blocks(enc: Encoder, source: MlxBuffer, block: int, keep: int, descending: bool) -> MlxBuffer:
    """The first `keep` items of each sorted block, [rows, kept]."""
    rows, length = rows_of("x", source)
    blocks = -(-length // block)
    count = length if keep == block else blocks * keep
    items = enc.empty((rows, count), DType.U64)
    pipeline = kernel(enc, "sort", "sort_blocks_" + ("items" if source.dtype is DType.U64 else str(source.dtype)))
    enc.dispatch(
        pipeline, source, Out(items), length, count, keep, descending, threadgroups=(blocks, rows), group=block // 2
    )
    return items


def _block(length: int) -> int:
    """Items per block: a power of two of whole simdgroups."""
    return min(_BLOCK, max(2 * SIMD, 1 << (length - 1).bit_length()))


def _write_indices(enc: Encoder, items: MlxBuffer, out: MlxBuffer) -> None:
    pipeline = kernel(enc, "sort", "sorted_indices")
    rows, count = items.shape
    k = out.shape[-1]
    enc.dispatch(pipeline, items, Out(out), count, k, threads=(k, rows))


def _write_values(enc: Encoder, x: MlxBuffer, items: MlxBuffer, out: MlxBuffer) -> None:
    pipeline = kernel(enc, "sort", f"sorted_values_{x.dtype}")
    rows, count = items.shape
    k = out.shape[-1]
    enc.dispatch(pipeline, items, x, Out(out), x.shape[-1], count, k, threads=(k, rows))
