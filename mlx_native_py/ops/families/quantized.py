"""MLX's quantised weights (groups with a scale and a bias): matmul, quantize and dequantize."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ...dtypes import DType
from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..matmul_shape import Batch, Shape, broadcast
from ..op import FLOATS, Indices, Output, Outputs, op
from ..product import check_rank, expert_batch, expert_rows, launch, product_flops
from ..support import check_dtype, check_shape, kernel, result, rows_of, shown

__all__ = ["dequantize", "quantize", "quantized_matmul", "quantized_matmul_id"]

_SPAN = 32
_BITS, _GROUPS = (2, 3, 4, 5, 6, 8), (32, 64, 128)
_SCALES = (DType.F32, DType.F16, DType.BF16, DType.U8)
_FORMATS = (*(f"affine{bits}" for bits in _BITS), "mxfp4")


@dataclass(frozen=True)
class _Packing:
    """How values are packed: `bits` each, in groups."""

    bits: int
    group_size: int
    mxfp4: bool

    @property
    def constants(self) -> dict[int | str, Any]:
        return {"BITS": self.bits, "MXFP4": self.mxfp4}

    @property
    def shift(self) -> int:
        return (self.group_size // _SPAN).bit_length() - 1

    def layout(self, length: int, rows: int, scales: MlxBuffer) -> bytes:
        """The struct `AffineLayout` of kernels/shared."""
        return struct.pack("<4I", length, self.shift, _SCALES.index(scales.dtype), rows)


def _packing(group_size: int | None, bits: int | None, mode: str) -> _Packing:
    if mode not in ("affine", "mxfp4"):
        raise InvalidArgument(f"mode is {mode!r}, expected 'affine' or 'mxfp4'")
    mxfp4 = mode == "mxfp4"
    group_size = (32 if mxfp4 else 64) if group_size is None else group_size
    bits = 4 if bits is None else bits
    if mxfp4 and (bits, group_size) != (4, 32):
        raise InvalidArgument(f"mxfp4 with {bits} bits in groups of {group_size}; it has 4 bits, in groups of 32")
    if bits not in _BITS or group_size not in _GROUPS:
        raise InvalidArgument(
            f"{bits!r} bits in groups of {group_size!r}, expected {', '.join(map(str, _BITS))} bits "
            f"in groups of {', '.join(map(str, _GROUPS))}"
        )
    return _Packing(bits, group_size, mxfp4)


def _length(packing: _Packing, w: MlxBuffer, scales: MlxBuffer, biases: MlxBuffer | None) -> int:
    """Checks the three buffers; returns the number of values per row of `w`."""
    check_dtype("w", w, (DType.U32,))
    check_dtype("scales", scales, (DType.U8,) if packing.mxfp4 else FLOATS)
    if w.ndim < 2 or w.shape[-1] * 32 % (packing.bits * packing.group_size):
        raise InvalidArgument(
            f"w is {shown(w)}, expected rows of whole groups: {packing.group_size} values of {packing.bits} bits"
        )
    length = w.shape[-1] * 32 // packing.bits
    check_shape("scales", scales, (*w.shape[:-1], length // packing.group_size), "one for each group of w")
    if (biases is None) != packing.mxfp4:
        raise InvalidArgument(f"biases is {shown(biases)}, expected {'None' if packing.mxfp4 else 'a buffer'}")
    if biases is not None:
        check_dtype("biases", biases, (scales.dtype,))
        check_shape("biases", biases, scales.shape, "the shape of scales")
    return length


@op("x @ (scales * w + biases)^T", _FORMATS, flops=product_flops)
def quantized_matmul(
    enc: Encoder,
    x: MlxBuffer,
    w: MlxBuffer,
    scales: MlxBuffer,
    biases: MlxBuffer | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    out: Output = None,
) -> MlxBuffer:
    """Rows x [..., m, k] times packed weights [..., n, k], or [..., k, n] without `transpose`; batches broadcast.

    The result has x's type, summed in float with unrounded weights. Scales may have another type than x.
    """
    packing = _packing(group_size, bits, mode)
    length, rows = _length(packing, w, scales, biases), w.shape[-2]
    check_dtype("x", x)
    depth, columns = (length, rows) if transpose else (rows, length)
    if not x.shape or x.shape[-1] != depth:
        raise InvalidArgument(f"x is {shown(x)} and w is {shown(w)}; expected rows of {depth} values in x")
    batch, m = _batch(x, w, depth)
    out = result(enc, out, (*_result_axes(x, w), columns), x.dtype)
    shape = Shape(m, columns, depth, transposed=transpose, batch=batch)
    _launch(enc, packing, shape, x, (w, scales, biases), out)
    return out


@op("x @ (scales[id] * w[id] + biases[id])^T for each id", _FORMATS, fn=("gather_qmm",), flops=product_flops)
def quantized_matmul_id(
    enc: Encoder,
    x: MlxBuffer,
    w: MlxBuffer,
    scales: MlxBuffer,
    biases: MlxBuffer | None,
    ids: Indices,
    *,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    out: Output = None,
) -> MlxBuffer:
    """Each row times the packed weights of its experts: w is [experts, n, packed k], ids is u32 [..., top_k].

    x is [..., k], one row for all experts of a token, or [..., top_k, k], one for each. The result is [..., top_k, n],
    and zero for an id out of range.
    """
    packing = _packing(group_size, bits, mode)
    depth = _length(packing, w, scales, biases)
    check_dtype("x", x)
    check_rank("w", w, 3)
    share = expert_rows(x, ids, depth)
    experts, columns, _ = w.shape
    out = result(enc, out, (*ids.shape, columns), x.dtype)
    shape = Shape(ids.size, columns, depth, experts=experts, share=share, batch=expert_batch(1))
    _launch(enc, packing, shape, x, (w, scales, biases), out, ids)
    return out


@op("scales * w + biases", _FORMATS)
def dequantize(
    enc: Encoder,
    w: MlxBuffer,
    scales: MlxBuffer,
    biases: MlxBuffer | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    dtype: DType | None = None,
    *,
    out: Output = None,
) -> MlxBuffer:
    """Unpacks weights, rounded as in MLX; the default type is that of the scales, or bf16 for mxfp4."""
    packing = _packing(group_size, bits, mode)
    length = _length(packing, w, scales, biases)
    if dtype is None:
        dtype = out.dtype if out is not None else DType.BF16 if packing.mxfp4 else scales.dtype
    out = result(enc, out, (*w.shape[:-1], length), dtype)
    check_dtype("out", out)
    rows = out.size // length
    pipeline = kernel(enc, "quantized", f"dequantize_{dtype}", packing.constants)
    arguments = (w, scales, 0 if biases is None else biases, Out(out), packing.layout(length, rows, scales))
    enc.dispatch(pipeline, *arguments, threads=(length // _SPAN, rows))
    return out


@op("(w - biases) / scales, in 2 to 8 bits", _FORMATS)
def quantize(
    enc: Encoder,
    w: MlxBuffer,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    out: Outputs = None,
) -> tuple[MlxBuffer, ...]:
    """Packs [..., k] into u32 words, scales and biases (none for mxfp4), bit-identical to MLX."""
    packing = _packing(group_size, bits, mode)
    check_dtype("w", w)
    if w.ndim < 2 or w.shape[-1] % packing.group_size:
        raise InvalidArgument(f"w is {shown(w)}, expected rows of whole groups of {packing.group_size} values")
    *axes, length = w.shape
    groups = (*axes, length // packing.group_size)
    wanted = [((*axes, length * packing.bits // 32), DType.U32), (groups, DType.U8 if packing.mxfp4 else w.dtype)]
    wanted += [] if packing.mxfp4 else [(groups, w.dtype)]
    if out is not None and len(out) != len(wanted):
        raise InvalidArgument(f"out has {len(out)} buffers, expected {len(wanted)}")
    given = out or (None,) * len(wanted)
    results = tuple(result(enc, each, *want) for each, want in zip(given, wanted, strict=True))
    pipeline = kernel(enc, "quantized", f"quantize_{w.dtype}", packing.constants)
    outs = [*map(Out, results), None][:3]
    enc.dispatch(pipeline, w, *outs, packing.group_size, threads=w.size // packing.group_size)
    return results


def _batch(x: MlxBuffer, w: MlxBuffer, depth: int) -> tuple[Batch, int]:
    """The batch, and the rows of x per matrix; a single w takes all rows of x at once."""
    if w.ndim == 2:
        return Batch(), rows_of("x", x)[0]
    if x.ndim < 2:
        raise InvalidArgument(f"x is {shown(x)} and w is {shown(w)}, expected a batch of rows in x too")
    sizes = _result_axes(x, w)[:-1]
    for axes in (x.shape[:-2], w.shape[:-2]):
        if any(size not in (1, most) for size, most in zip(reversed(axes), reversed(sizes), strict=False)):
            raise InvalidArgument(f"x is {shown(x)} and w is {shown(w)}; their batches do not broadcast")
    m = x.shape[-2]
    return broadcast(sizes, (x.shape[:-2], m * depth), (w.shape[:-2], 1), ((), 0)), m


def _result_axes(x: MlxBuffer, w: MlxBuffer) -> tuple[int, ...]:
    """The axes of the result except the last."""
    if w.ndim == 2:
        return x.shape[:-1]
    pairs = zip_longest(reversed(x.shape[:-2]), reversed(w.shape[:-2]), fillvalue=1)
    return (*reversed([max(pair) for pair in pairs]), x.shape[-2])


def _launch(
    enc: Encoder,
    packing: _Packing,
    shape: Shape,
    x: MlxBuffer,
    weights: tuple[MlxBuffer, MlxBuffer, MlxBuffer | None],
    out: MlxBuffer,
    ids: MlxBuffer | None = None,
) -> None:
    w, scales, biases = weights
    length, rows = (shape.depth, shape.columns) if shape.transposed else (shape.columns, shape.depth)
    launch(
        *(enc, "quantized", str(x.dtype), shape, x, (w, scales, 0 if biases is None else biases), out),
        ids=ids,
        extra=(packing.layout(length, rows, scales),),
        constants=packing.constants,
        fixed={"GROUP_SHIFT": packing.shift, "SCALE_TYPE": _SCALES.index(scales.dtype)},
    )
