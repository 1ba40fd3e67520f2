"""Rows of the ops that take rows by number."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .rows_layout import REST, anything, same
from .table import FLOATS, row

Shape = tuple[int, ...]


def some_ids(bench: Bench, rows: int, shape: Shape, dtype: DType = DType.U32) -> Array:
    """Of rows that are there, the last among them, and of one that is not."""
    ids = bench.integers(0, rows, *shape, dtype=dtype)
    ids.reshape(-1)[-2:] = (rows - 1, rows)[-ids.size :]
    return ids


def taken(x: Array, ids: Array) -> Array:
    """numpy's rows, and zeros for what it refuses."""
    signed = ids.astype(np.int64)
    missing = (signed >= len(x)) | (signed < -len(x))
    result = x[np.where(missing, 0, signed)].copy()
    result[missing] = 0
    return result


@row(
    "gather",
    dtype=FLOATS,
    shapes=[((5,), (3,)), ((7, 33), (4,)), ((4, 3, 5), (2, 3))],
    more={"dtype": REST, "shapes": [((1, 65), (1,)), ((64, 2), (33,)), ((9, 1), (2, 2, 2))]},
)
def gather(bench: Bench, dtype: DType, shapes: tuple[Shape, Shape]) -> None:
    shape, ids_shape = shapes
    x, ids = anything(bench, dtype, *shape), some_ids(bench, shape[0], ids_shape)
    out = bench.out(*ids_shape, *shape[1:], dtype=dtype)
    bench.run(ops.gather, bench.put(x), bench.put(ids), out)
    same(bench, out, taken(x, ids))


@row("gather", dtype=[DType.F32, DType.F16], rows=[5, 40], more={"dtype": [DType.U64, DType.I8], "rows": [1, 33]})
def signed_ids(bench: Bench, dtype: DType, rows: int) -> None:
    """Negative ones count from the end; far ones have no row."""
    x = anything(bench, dtype, rows, 6)
    ids = np.asarray([0, -1, -rows, -rows - 1, rows, rows - 1, -(2**31), 2**31 - 1], np.int32)
    out = bench.out(ids.size, 6, dtype=dtype)
    bench.run(ops.gather, bench.put(x), bench.put(ids), out)
    same(bench, out, taken(x, ids))


@row(
    "embedding",
    dtype=FLOATS,
    scale=[1.0, 33.94],
    shapes=[(7, 33, (4,)), (5, 64, (2, 3))],
    more={"shapes": [(1, 1, (1,)), (100, 96, (33,)), (3, 257, (2,))], "scale": [0.5, 8.0]},
)
def embedding(bench: Bench, dtype: DType, scale: float, shapes: tuple[int, int, Shape]) -> None:
    """A scale of 1 changes no bit, and rounding is to nearest."""
    rows, dims, ids_shape = shapes
    table, ids = bench.normal(rows, dims, dtype=dtype), some_ids(bench, rows, ids_shape)
    out = bench.out(*ids_shape, dims, dtype=dtype)
    bench.run(ops.embedding, bench.put(ids), bench.put(table), scale=scale, out=out)
    bench.exact(out, (taken(table, ids).astype(np.float32) * np.float32(scale)).astype(dtype.numpy))


def unpacked(w: Array, bits: int) -> Array:
    """Values from packed words: the lowest bits first."""
    stream = np.unpackbits(w.view(np.uint8), axis=1, bitorder="little").reshape(len(w), -1, bits)
    return stream @ (1 << np.arange(bits))


@row(
    "quantized_embedding",
    format=["affine2", "affine3", "affine4", "affine5", "affine6", "affine8"],
    group_size=[32, 64],
    dtype=FLOATS,
    more={"group_size": [128]},
)
def quantized_embedding(bench: Bench, format: str, group_size: int, dtype: DType) -> None:
    """Bit for bit what `dequantize` would give: a rounding after the product, and one after the sum."""
    bits, dims, rows = int(format[-1]), 256, 9
    w = bench.integers(0, 2**32, rows, dims * bits // 32)
    scales, biases = (bench.normal(rows, dims // group_size, dtype=dtype) for _ in range(2))
    ids = some_ids(bench, rows, (5,))
    out = bench.out(5, dims, dtype=dtype)
    inputs = [bench.put(each) for each in (ids, w, scales, biases)]
    bench.run(ops.quantized_embedding, *inputs, group_size=group_size, bits=bits, out=out)
    wide = [each.repeat(group_size, axis=1).astype(np.float32) for each in (scales, biases)]
    product = (wide[0] * unpacked(w, bits).astype(np.float32)).astype(dtype.numpy).astype(np.float32)
    bench.exact(out, taken((product + wide[1]).astype(dtype.numpy), ids))


@row("quantized_embedding", format=["affine4", "affine6"], dtype=FLOATS, scale=[1.0, 16.0], more={"scale": [0.25]})
def wide_quantized_embedding(bench: Bench, format: str, dtype: DType, scale: float) -> None:
    """f32 out of scales of any type, and scaled."""
    bits, dims, rows = int(format[-1]), 128, 4
    w = bench.integers(0, 2**32, rows, dims * bits // 32)
    scales, biases = (bench.normal(rows, dims // 64, dtype=dtype) for _ in range(2))
    ids = some_ids(bench, rows, (2, 3), DType.I32)
    out = bench.out(2, 3, dims)
    inputs = [bench.put(each) for each in (ids, w, scales, biases)]
    bench.run(ops.quantized_embedding, *inputs, bits=bits, scale=scale, dtype=DType.F32, out=out)
    wide = [each.repeat(64, axis=1).astype(np.float32) for each in (scales, biases)]
    bench.exact(out, taken((wide[0] * unpacked(w, bits).astype(np.float32) + wide[1]) * np.float32(scale), ids))
