"""GGML block formats, as in GGUF files: matmul, embedding lookup and dequantize."""

from __future__ import annotations

from ...dtypes import DType
from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ...weights.ggml_types import GGML_TYPES, GgmlType
from ..matmul_shape import Shape
from ..op import Indices, Output, op
from ..product import check_rank, expert_batch, expert_rows, launch, product_flops
from ..support import check_dtype, check_shape, kernel, result, rows_of, shown

__all__ = ["ggml_dequantize", "ggml_embedding", "ggml_matmul", "ggml_matmul_id"]

_FORMATS = tuple(GGML_TYPES)


@op("x @ values(w)^T", _FORMATS, flops=product_flops)
def ggml_matmul(enc: Encoder, x: MlxBuffer, w: MlxBuffer, format: str | GgmlType, *, out: Output = None) -> MlxBuffer:
    """Rows x [..., k] times weights w, u8 [n, bytes per row]; the result [..., n] has x's type, summed in float."""
    kind, depth = _block_rows(w, format)
    check_dtype("x", x)
    check_rank("w", w, 2)
    rows, _ = rows_of("x", x)
    check_shape("x", x, (*x.shape[:-1], depth), "the values in a row of w")
    columns = w.shape[0]
    out = result(enc, out, (*x.shape[:-1], columns), x.dtype)
    shape = Shape(rows, columns, depth)
    launch(enc, "ggml", f"{kind}_{x.dtype}", shape, x, (w,), out)
    return out


@op("x @ values(w[id])^T for each id", _FORMATS, flops=product_flops)
def ggml_matmul_id(
    enc: Encoder,
    x: MlxBuffer,
    w: MlxBuffer,
    ids: Indices,
    format: str | GgmlType,
    *,
    out: Output = None,
) -> MlxBuffer:
    """Each row times the weights of its experts: w is u8 [experts, n, bytes per row], ids is u32 [..., top_k].

    x is [..., k], one row for all experts of a token, or [..., top_k, k], one for each. The result is [..., top_k, n],
    and zero for an id out of range.
    """
    kind, depth = _block_rows(w, format)
    check_dtype("x", x)
    check_rank("w", w, 3)
    share = expert_rows(x, ids, depth)
    experts, columns, _ = w.shape
    out = result(enc, out, (*ids.shape, columns), x.dtype)
    shape = Shape(ids.size, columns, depth, experts=experts, share=share, batch=expert_batch(1))
    launch(enc, "ggml", f"{kind}_{x.dtype}", shape, x, (w,), out, ids=ids)
    return out


@op("values(w)", _FORMATS)
def ggml_dequantize(
    enc: Encoder,
    w: MlxBuffer,
    format: str | GgmlType,
    dtype: DType = DType.F32,
    *,
    out: Output = None,
) -> MlxBuffer:
    """Dequantizes blocks: u8 [..., bytes per row] gives [..., values per row]."""
    kind, length = _block_rows(w, format)
    rows, _ = rows_of("w", w)
    out = result(enc, out, (*w.shape[:-1], length), dtype if out is None else out.dtype)
    _rows(enc, kind, w, None, out, rows)
    return out


@op("values(table[ids])", _FORMATS)
def ggml_embedding(
    enc: Encoder,
    ids: Indices,
    table: MlxBuffer,
    format: str | GgmlType,
    dtype: DType = DType.F32,
    *,
    out: Output = None,
) -> MlxBuffer:
    """Rows of a block table, u8 [rows, bytes per row], by u32 ids of any shape; zeros for ids out of range."""
    kind, length = _block_rows(table, format)
    check_rank("table", table, 2)
    check_dtype("ids", ids, (DType.U32,))
    out = result(enc, out, (*ids.shape, length), dtype if out is None else out.dtype)
    _rows(enc, kind, table, ids, out, table.shape[0])
    return out


def _rows(enc: Encoder, kind: GgmlType, w: MlxBuffer, ids: MlxBuffer | None, out: MlxBuffer, rows: int) -> None:
    check_dtype("out", out)
    length = out.shape[-1]
    pipeline = kernel(enc, "ggml", f"ggml_rows_{kind}_{out.dtype}")
    arguments = (w, 0 if ids is None else ids, Out(out), length, rows, int(ids is not None))
    enc.dispatch(pipeline, *arguments, threads=(length // kind.span, out.size // length))


def _block_rows(w: MlxBuffer, given: str | GgmlType) -> tuple[GgmlType, int]:
    """The format, and the number of values per row of `w`, which must hold whole blocks."""
    kind = given if isinstance(given, GgmlType) else GGML_TYPES.get(given)
    if kind is None:
        raise InvalidArgument(f"{given!r} is not a block format; there are: {', '.join(GGML_TYPES)}")
    check_dtype("w", w, (DType.U8,))
    if w.ndim < 2 or w.shape[-1] % kind.bytes:
        raise InvalidArgument(f"w is {shown(w)}, expected rows of whole {kind} blocks, {kind.bytes} bytes each")
    if w.offset % 2:
        raise InvalidArgument(f"w begins at byte {w.offset} of its memory, expected an even one")
    return kind, w.shape[-1] // kind.bytes * kind.values
