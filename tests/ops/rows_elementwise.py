"""Rows of the elementwise ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py import DType, ops
from mlx_native_py.dtypes import INTEGERS

from .bench import Array, Bench
from .table import FLOATS, row

SHAPES = [(1,), (3, 7), (257,), (2, 33, 5)]
MORE = {"shape": [(31,), (32,), (63, 65), (1025, 3), (64, 64), (5, 1, 4, 2)]}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 40.0, 1e-8]


def numbers(bench: Bench, dtype: DType, shape: tuple[int, ...], scale: float = 1.0) -> Array:
    """Random ones, and where there is room for them the special ones."""
    x = bench.normal(*shape, dtype=dtype, scale=scale)
    if x.size >= len(SPECIAL):
        x.reshape(-1)[-len(SPECIAL) :] = np.asarray(SPECIAL, np.float32).astype(dtype.numpy)
    return x


def wide(x: Array) -> Array:
    return x.astype(np.float64)


@row("add", dtype=FLOATS, shape=SHAPES, more=MORE)
def add(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    a, b = numbers(bench, dtype, shape), bench.normal(*shape, dtype=dtype)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.add, bench.put(a), bench.put(b), out)
    bench.elementwise(out, wide(a) + wide(b))


@row("mul", dtype=FLOATS, shape=SHAPES, more=MORE)
def mul(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    a, b = numbers(bench, dtype, shape), bench.normal(*shape, dtype=dtype)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.mul, bench.put(a), bench.put(b), out)
    bench.elementwise(out, wide(a) * wide(b))


@row("sub", dtype=FLOATS, shape=SHAPES, more=MORE)
def sub(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    a, b = numbers(bench, dtype, shape), bench.normal(*shape, dtype=dtype)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.sub, bench.put(a), bench.put(b), out)
    bench.elementwise(out, wide(a) - wide(b))


@row("div", dtype=FLOATS, shape=SHAPES, more=MORE)
def div(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    a, b = numbers(bench, dtype, shape), bench.normal(*shape, dtype=dtype)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.div, bench.put(a), bench.put(b), out)
    bench.elementwise(out, wide(a) / wide(b))


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


@row(
    "add",
    name=list(BINARY),
    dtype=FLOATS,
    shapes=[((4, 9), (9,)), ((2, 3, 33), (3, 33)), ((257,), (1,))],
    more={"shapes": [((64, 128), (128,)), ((1, 5), (5,)), ((33, 1), (1,)), ((3, 2, 2, 7), (2, 2, 7))]},
)
def row_broadcast(bench: Bench, name: str, dtype: DType, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = numbers(bench, dtype, shapes[0]), bench.normal(*shapes[1], dtype=dtype)
    out = bench.out(*shapes[0], dtype=dtype)
    bench.run(getattr(ops, name), bench.put(a), bench.put(b), out)
    bench.elementwise(out, BINARY[name](wide(a), wide(b)))


@row("add", name=list(BINARY), dtype=FLOATS)
def in_place(bench: Bench, name: str, dtype: DType) -> None:
    a, b = bench.normal(77, dtype=dtype), bench.normal(77, dtype=dtype)
    out = bench.put(a, changes=True)
    bench.run(getattr(ops, name), out, bench.put(b), out)
    bench.elementwise(out, BINARY[name](wide(a), wide(b)))


WHOLE = [DType.I32, DType.U8]


WRAPPED: dict[str, Any] = {
    "dtype": WHOLE,
    "shapes": [((3, 43), (3, 43)), ((4, 9), (9,))],
    "more": {"dtype": [each for each in INTEGERS if each not in WHOLE]},
}


def whole(name: str, bench: Bench, dtype: DType, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Bit for bit as numpy, whose whole numbers wrap around too."""
    bits = [np.frombuffer(bench.rng.bytes(dtype.size * int(np.prod(shape))), dtype.numpy) for shape in shapes]
    a, b = (each.reshape(shape) for each, shape in zip(bits, shapes, strict=True))
    out = bench.out(*shapes[0], dtype=dtype)
    bench.run(getattr(ops, name), bench.put(a), bench.put(b), out)
    bench.exact(out, BINARY[name](a, b))


@row("add", **WRAPPED)
def whole_add(bench: Bench, dtype: DType, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    whole("add", bench, dtype, shapes)


@row("sub", **WRAPPED)
def whole_sub(bench: Bench, dtype: DType, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    whole("sub", bench, dtype, shapes)


@row("mul", **WRAPPED)
def whole_mul(bench: Bench, dtype: DType, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    whole("mul", bench, dtype, shapes)


@row("scalar_mul", dtype=FLOATS, shape=SHAPES[1:3], s=[-1.5, 55.42], more={**MORE, "s": [0.0, 1.0, np.inf]})
def scalar_mul(bench: Bench, dtype: DType, shape: tuple[int, ...], s: float) -> None:
    x = numbers(bench, dtype, shape)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.scalar_mul, bench.put(x), s, out)
    with np.errstate(invalid="ignore", over="ignore"):
        bench.elementwise(out, wide(x) * float(np.float32(s)))


@row("cast", dtype=FLOATS, to=FLOATS, shape=SHAPES[1:3], more=MORE)
def cast(bench: Bench, dtype: DType, to: DType, shape: tuple[int, ...]) -> None:
    """Bit for bit; the value at half a step goes to its even neighbour."""
    if dtype is to:
        return
    x = numbers(bench, dtype, shape, scale=300)
    x.reshape(-1)[:3] = np.asarray([2049.0, 257.0, 65488.0], np.float32).astype(dtype.numpy)
    out = bench.out(*shape, dtype=to)
    bench.run(ops.cast, bench.put(x), to, out)
    with np.errstate(over="ignore"):
        bench.exact(out, x.astype(np.float32).astype(to.numpy))


@row("fill", dtype=tuple(DType), value=[1, 0], more={"value": [100, 77]})
def fill(bench: Bench, dtype: DType, value: int) -> None:
    out = bench.out(3, 43, dtype=dtype)
    bench.run(ops.fill, out, value)
    bench.exact(out, np.full((3, 43), value, dtype.numpy))


@row("fill", dtype=FLOATS, value=[1 / 3, -np.inf, np.nan])
def fill_float(bench: Bench, dtype: DType, value: float) -> None:
    out = bench.out(65, dtype=dtype)
    bench.run(ops.fill, out, value)
    bench.exact(out, np.full(65, value, np.float32).astype(dtype.numpy))
