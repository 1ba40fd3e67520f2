"""Rows of the ops on weights as MLX packs them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row
from .weights import AFFINE, bits_of, codes_of, options_of, packed, routed

FORMATS = (*AFFINE, "mxfp4")
SMALL = [DType.F16, DType.BF16]
E2M1_ENDS = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], np.float32)


@row(
    "quantized_matmul",
    format=AFFINE,
    group=[64],
    dtype=[DType.F32],
    scales=[DType.F32],
    rows=[1, 3, 33],
    more={"group": [32, 128], "dtype": SMALL, "scales": SMALL, "rows": [9]},
)
def quantized_matmul(bench: Bench, format: str, group: int, dtype: DType, scales: DType, rows: int) -> None:
    w = packed(bench, format, 37, 256, group=group, scales=scales)
    x = bench.normal(rows, 256, dtype=dtype)
    out = bench.out(rows, 37, dtype=dtype)
    bench.run(ops.quantized_matmul, bench.put(x), *w.buffers, **w.options, out=out)
    bench.quantised(out, x.astype(np.float64) @ w.values.T)


@row(
    "quantized_matmul",
    format=FORMATS,
    group=[64],
    scales=[DType.F32],
    dtype=[DType.F32],
    more={"group": [32, 128], "scales": SMALL, "dtype": SMALL},
)
def quantized_matmul_large(bench: Bench, format: str, group: int, scales: DType, dtype: DType) -> None:
    """A width that is worth a build of its own."""
    w = packed(bench, format, 131, 512, group=group, scales=scales)
    x = bench.normal(1, 512, dtype=dtype)
    out = bench.out(1, 131, dtype=dtype)
    bench.run(ops.quantized_matmul, bench.put(x), *w.buffers, **w.options, out=out)
    bench.quantised(out, x.astype(np.float64) @ w.values.T)


@row(
    "quantized_matmul", format=["mxfp4"], dtype=[DType.F32], rows=[1, 3, 33], more={"dtype": SMALL, "rows": [8, 9, 70]}
)
def quantized_matmul_mxfp4(bench: Bench, format: str, dtype: DType, rows: int) -> None:
    w = packed(bench, format, 19, 224)
    x = bench.normal(rows, 224, dtype=dtype)
    out = bench.out(rows, 19, dtype=dtype)
    bench.run(ops.quantized_matmul, bench.put(x), *w.buffers, **w.options, out=out)
    bench.quantised(out, x.astype(np.float64) @ w.values.T)


@row(
    "quantized_matmul",
    format=FORMATS,
    dtype=[DType.F32],
    scales=[DType.F16],
    size=[(1, 40), (34, 7)],
    more={"dtype": SMALL, "size": [(5, 1), (12, 65)]},
)
def quantized_matmul_plain(bench: Bench, format: str, dtype: DType, scales: DType, size: tuple[int, int]) -> None:
    """Not transposed: the packed axis is that of the result."""
    m, k = size
    w = packed(bench, format, k, 192, scales=scales)
    x = bench.normal(m, k, dtype=dtype)
    out = bench.out(m, 192, dtype=dtype)
    bench.run(ops.quantized_matmul, bench.put(x), *w.buffers, transpose=False, **w.options, out=out)
    bench.quantised(out, x.astype(np.float64) @ w.values)


@row(
    "quantized_matmul",
    format=["affine4"],
    batch=[((2, 3), ()), ((3,), (3,)), ((2, 1), (1, 3)), ((), (2,))],
    rows=[1, 10],
    transpose=[True, False],
    more={"format": ["affine3", "mxfp4"]},
)
def quantized_matmul_batched(bench: Bench, format: str, batch: Any, rows: int, transpose: bool) -> None:
    w = packed(bench, format, *batch[1], 64, 128, scales=DType.BF16)
    x = bench.normal(*batch[0], rows, 128 if transpose else 64)
    right = np.swapaxes(w.values, -1, -2) if transpose else w.values
    expected = x.astype(np.float64) @ right
    out = bench.out(*expected.shape)
    bench.run(ops.quantized_matmul, bench.put(x), *w.buffers, transpose=transpose, **w.options, out=out)
    bench.quantised(out, expected)


@row(
    "quantized_matmul_id",
    format=FORMATS,
    dtype=[DType.F32],
    tokens=[(3, 2), (40, 3)],
    shared=[True],
    more={"dtype": SMALL, "tokens": [(1, 4), (70, 1), (9, 8)], "shared": [False]},
)
def quantized_matmul_id(bench: Bench, format: str, dtype: DType, tokens: tuple[int, int], shared: bool) -> None:
    w = packed(bench, format, 4, 20, 64)
    ids = bench.integers(0, 5, *tokens)  # one id more than there are experts
    x = bench.normal(*(tokens[:1] if shared else tokens), 64, dtype=dtype)
    out = bench.out(*tokens, 20, dtype=dtype)
    bench.run(ops.quantized_matmul_id, bench.put(x), *w.buffers, bench.put(ids), **w.options, out=out)
    bench.quantised(out, routed(x, ids, w.values))


@row("dequantize", format=AFFINE, dtype=[DType.F32], group=[32, 128], more={"dtype": SMALL, "group": [64]})
def dequantize(bench: Bench, format: str, dtype: DType, group: int) -> None:
    w = packed(bench, format, 2, 5, 256, group=group, scales=dtype)
    codes = codes_of(np.asarray(w.buffers[0]), bits_of(format)).astype(np.float32)
    scale, bias = (np.repeat(np.asarray(each).astype(np.float32), group, -1) for each in w.buffers[1:])
    products = (scale * codes).astype(dtype.numpy).astype(np.float32)
    out = bench.out(2, 5, 256, dtype=dtype)
    bench.run(ops.dequantize, *w.buffers, **w.options, out=out)
    bench.exact(out, (products + bias).astype(dtype.numpy))


@row("dequantize", format=["mxfp4"], dtype=FLOATS, rows=[3], more={"rows": [1, 40]})
def dequantize_mxfp4(bench: Bench, format: str, dtype: DType, rows: int) -> None:
    w = packed(bench, format, rows, 96)
    out = bench.out(rows, 96, dtype=dtype)
    bench.run(ops.dequantize, *w.buffers, **w.options, out=out)
    bench.exact(out, w.values.astype(dtype.numpy))


def affine_reference(w: Array, bits: int, group: int) -> tuple[Array, Array, Array]:
    """Codes, scales and biases in float32: the end further from 0 is met exactly."""
    groups = w.astype(np.float32).reshape(*w.shape[:-1], -1, group)
    low, high, most = groups.min(-1), groups.max(-1), np.float32(2**bits - 1)
    below = np.abs(low) > np.abs(high)
    step = np.maximum((high - low) / most, np.float32(1e-7))
    scale, edge = np.where(below, step, -step), np.where(below, low, high)
    code = np.rint(edge / scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(code != 0, edge / code, scale)
    bias = np.where(code != 0, edge, np.float32(0))
    codes = np.clip(np.rint((groups - bias[..., None]) / scale[..., None]), 0, most)
    return codes.reshape(w.shape).astype(np.uint32), scale, bias


@row(
    "quantize",
    format=AFFINE,
    dtype=[DType.F32],
    group=[64],
    shape=[(3, 128)],
    more={"dtype": SMALL, "group": [32, 128], "shape": [(2, 7, 256)]},
)
def quantize(bench: Bench, format: str, dtype: DType, group: int, shape: tuple[int, ...]) -> None:
    w = bench.normal(*shape, dtype=dtype)
    w[0, ..., :group] = 0  # a group of zeros
    out = _outs(bench, format, shape, group, dtype)
    bench.run(ops.quantize, bench.put(w), **options_of(format, group), out=out)
    codes, scale, bias = affine_reference(w, bits_of(format), group)
    bench.exact(codes_of(np.asarray(out[0]), bits_of(format)).astype(np.uint32), codes)
    bench.exact(out[1], scale.astype(dtype.numpy))
    bench.exact(out[2], bias.astype(dtype.numpy))


@row("quantize", format=["mxfp4"], dtype=FLOATS, shape=[(3, 64)], more={"shape": [(2, 5, 128)]})
def quantize_mxfp4(bench: Bench, format: str, dtype: DType, shape: tuple[int, ...]) -> None:
    w = bench.normal(*shape, dtype=dtype, scale=3)
    w[0, ..., :32] = 0
    out = _outs(bench, format, shape, 32, dtype)
    bench.run(ops.quantize, bench.put(w), mode="mxfp4", out=out)
    groups = w.astype(np.float32).reshape(*shape[:-1], -1, 32)
    most = np.abs(groups).max(-1)
    with np.errstate(divide="ignore"):
        exponent = np.where(most == 0, 127, np.ceil(np.log2(most / np.float32(6))) + 127).astype(np.uint8)
    scaled = groups / np.exp2(exponent.astype(np.float32) - 127)[..., None]
    codes = (np.abs(scaled)[..., None] > E2M1_ENDS).sum(-1)
    codes += np.where((codes > 0) & (scaled < 0), 8, 0)
    bench.exact(codes_of(np.asarray(out[0]), 4).astype(np.uint32), codes.reshape(shape).astype(np.uint32))
    bench.exact(out[1], exponent)


def _outs(bench: Bench, format: str, shape: tuple[int, ...], group: int, dtype: DType) -> tuple[Any, ...]:
    *axes, length = shape
    words = bench.out(*axes, length * bits_of(format) // 32, dtype=DType.U32)
    if format == "mxfp4":
        return words, bench.out(*axes, length // group, dtype=DType.U8)
    return words, *(bench.out(*axes, length // group, dtype=dtype) for _ in range(2))
