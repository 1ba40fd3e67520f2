"""Rows of the layouts: whatever the order, no bit changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row

REST = tuple(dtype for dtype in DType if dtype not in FLOATS)
WIDTHS = (DType.F32, DType.F16, DType.U8)
Shape = tuple[int, ...]


def anything(bench: Bench, dtype: DType, *shape: int) -> Array:
    """Any bits that a type can have; two values for a bool."""
    size = int(np.prod(shape)) * dtype.size
    bits = bench.rng.integers(0, 2 if dtype is DType.BOOL else 256, size).astype(np.uint8)
    return bits.view(dtype.numpy).reshape(shape)


def same(bench: Bench, found: Any, expected: Array) -> None:
    """Also the bits of NaN."""
    got = np.asarray(found)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes()


@row("copy", dtype=FLOATS, shape=[(1,), (3, 7), (2, 33, 5)], more={"dtype": REST, "shape": [(1025,), (64, 64)]})
def copy(bench: Bench, dtype: DType, shape: Shape) -> None:
    x = anything(bench, dtype, *shape)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.copy, bench.put(x), out)
    same(bench, out, x)


@row(
    "copy",
    dtype=WIDTHS,
    place=[((5, 3), (7, 2), 4), ((3, 4), (1, 3), 0), ((2, 2, 2, 2, 2), (1, 16, 4, 8, 2), 3), ((6,), (-2,), 30)],
    more={"place": [((33, 65), (1, 33), 1), ((4, 1, 6), (0, 5, 1), 0), ((3, 4, 5), (20, -5, 1), 15)]},
)
def strided(bench: Bench, dtype: DType, place: tuple[Shape, Shape, int]) -> None:
    shape, strides, offset = place
    x = anything(bench, dtype, 2200)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.copy, bench.put(x), out, shape=shape, strides=strides, offset=offset)
    index = offset + sum(np.indices(shape)[axis] * step for axis, step in enumerate(strides))
    same(bench, out, x[index])


@row(
    "transpose",
    dtype=FLOATS,
    order=[
        ((4, 9), (1, 0)),
        ((2, 3, 4, 5), (3, 1, 0, 2)),
        ((2, 40, 33), (0, 2, 1)),
        ((2, 3, 2, 3, 2), (4, 2, 0, 3, 1)),
    ],
    more={
        "dtype": REST,
        "order": [((5,), (0,)), ((2, 3, 4), (0, 1, 2)), ((2, 1, 3), (2, 0, 1)), ((2,) * 7, (6, 4, 2, 0, 1, 3, 5))],
    },
)
def transpose(bench: Bench, dtype: DType, order: tuple[Shape, Shape]) -> None:
    shape, axes = order
    x = anything(bench, dtype, *shape)
    expected = x.transpose(axes)
    out = bench.out(*expected.shape, dtype=dtype)
    bench.run(ops.transpose, bench.put(x), axes, out)
    same(bench, out, expected)


@row(
    "transpose_2d",
    dtype=FLOATS,
    shape=[(1, 5), (31, 33), (64, 96)],
    more={"dtype": REST, "shape": [(8, 8), (100, 3), (3, 100), (32, 32), (65, 7), (129, 40)]},
)
def transpose_2d(bench: Bench, dtype: DType, shape: Shape) -> None:
    x = anything(bench, dtype, *shape)
    out = bench.out(*shape[::-1], dtype=dtype)
    bench.run(ops.transpose_2d, bench.put(x), out)
    same(bench, out, x.T)


@row(
    "permute_021",
    dtype=FLOATS,
    shape=[(3, 5, 7), (2, 4, 64), (5, 3, 256)],
    more={"dtype": REST, "shape": [(1, 9, 1), (33, 8, 3)]},
)
def permute_021(bench: Bench, dtype: DType, shape: Shape) -> None:
    x = anything(bench, dtype, *shape)
    out = bench.out(shape[1], shape[0], shape[2], dtype=dtype)
    bench.run(ops.permute_021, bench.put(x), out)
    same(bench, out, x.transpose(1, 0, 2))


@row("transpose_last2", dtype=FLOATS, shape=[(3, 5, 7), (2, 33, 40)], more={"dtype": REST, "shape": [(4, 64, 32)]})
def transpose_last2(bench: Bench, dtype: DType, shape: Shape) -> None:
    x = anything(bench, dtype, *shape)
    out = bench.out(shape[0], shape[2], shape[1], dtype=dtype)
    bench.run(ops.transpose_last2, bench.put(x), out)
    same(bench, out, x.transpose(0, 2, 1))


@row(
    "repeat",
    dtype=FLOATS,
    tiled=[False, True],
    place=[((3, 5), 2, 0), ((2, 3, 4), 3, 1)],
    more={"dtype": REST, "place": [((7,), 1, 0), ((2, 33), 5, -1), ((4, 8, 16), 4, 1)]},
)
def repeat(bench: Bench, dtype: DType, tiled: bool, place: tuple[Shape, int, int]) -> None:
    shape, repeats, axis = place
    x = anything(bench, dtype, *shape)
    expected = np.concatenate([x] * repeats, axis) if tiled else np.repeat(x, repeats, axis)
    out = bench.out(*expected.shape, dtype=dtype)
    bench.run(ops.repeat, bench.put(x), repeats, axis=axis, tiled=tiled, out=out)
    same(bench, out, expected)


@row(
    "slice",
    dtype=FLOATS,
    part=[((9,), (2,), (7,), (1,)), ((5, 8), (0, 3), (5, 6), (1, 1)), ((4, 5, 6), (1, -3, 0), (4, 5, -1), (2, 1, 3))],
    more={"dtype": REST, "part": [((64, 33), (0, 32), (64, 33), (1, 1)), ((3, 3), (0, 0), (3, 3), (1, 1))]},
)
def slice_(bench: Bench, dtype: DType, part: tuple[Shape, Shape, Shape, Shape]) -> None:
    shape, start, stop, strides = part
    x = anything(bench, dtype, *shape)
    expected = x[tuple(slice(*each) for each in zip(start, stop, strides, strict=True))]
    out = bench.out(*expected.shape, dtype=dtype)
    bench.run(ops.slice, bench.put(x), start, stop, strides, out)
    same(bench, out, expected)


@row(
    "slice_update",
    dtype=FLOATS,
    part=[((9,), (3,), (4,)), ((5, 8), (5, 2), (0, 3)), ((4, 5, 6), (2, 1, 6), (1, 4, 0))],
    more={"dtype": REST, "part": [((64, 33), (1, 33), (63, 0)), ((3, 3), (3, 3), (0, 0))]},
)
def slice_update(bench: Bench, dtype: DType, part: tuple[Shape, Shape, Shape]) -> None:
    shape, block, start = part
    x, update = anything(bench, dtype, *shape), anything(bench, dtype, *block)
    expected = x.copy()
    expected[tuple(slice(a, a + n) for a, n in zip(start, block, strict=True))] = update
    out = bench.put(x, changes=True)
    bench.run(ops.slice_update, out, bench.put(update), start)
    same(bench, out, expected)


@row(
    "concat",
    dtype=FLOATS,
    parts=[((2, 3), (2, 5), 1), ((3, 4), (1, 4), (2, 4), 0), ((2, 3, 5), (2, 1, 5), (2, 4, 5), 1)],
    more={"dtype": REST, "parts": [((5,), 0), (*[(3, n, 2) for n in range(1, 8)], 1), ((64, 31), (64, 33), -1)]},
)
def concat(bench: Bench, dtype: DType, parts: tuple[Any, ...]) -> None:
    *shapes, axis = parts
    arrays = [anything(bench, dtype, *shape) for shape in shapes]
    expected = np.concatenate(arrays, axis)
    out = bench.out(*expected.shape, dtype=dtype)
    bench.run(ops.concat, [bench.put(x) for x in arrays], axis=axis, out=out)
    same(bench, out, expected)


@row(
    "qkv_split",
    dtype=FLOATS,
    parts=[(3, (8, 4, 4)), (1, (1, 2, 3))],
    more={"dtype": REST, "parts": [(33, (64, 16, 16)), (5, (7, 7, 7))]},
)
def qkv_split(bench: Bench, dtype: DType, parts: tuple[int, Shape]) -> None:
    rows, (a, b, c) = parts
    x = anything(bench, dtype, rows, a + b + c)
    out = [bench.out(rows, width, dtype=dtype) for width in (a, b, c)]
    bench.run(ops.qkv_split, bench.put(x), (a, b, c), out)
    for result, expected in zip(out, np.split(x, [a, a + b], 1), strict=True):
        same(bench, result, expected)
