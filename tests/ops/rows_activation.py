"""Rows of the activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .rows_elementwise import wide
from .table import FLOATS, row

SHAPES = [(5,), (3, 7), (257,)]
MORE = {"shape": [(1,), (32,), (63, 65), (2, 33, 5), (1025, 3)]}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 12.5, -12.5, 60.0]


def erfc(x: Array) -> Array:
    return np.asarray([math.erfc(value) for value in x.reshape(-1)]).reshape(x.shape)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    return 0.5 * x * erfc(-x / math.sqrt(2))


def gelu_approx(x: Array) -> Array:
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


FORMULAS: dict[str, Any] = {
    "silu": lambda x: x * sigmoid(x),
    "gelu": gelu,
    "gelu_approx": gelu_approx,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
}
GATES: dict[str, Any] = {
    "silu_mul": FORMULAS["silu"],
    "gelu_mul": gelu_approx,
    "sigmoid_mul": sigmoid,
}


def numbers(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Such that results stay above the smallest normal number, below which there are no 24 bits; and special ones."""
    x = np.clip(bench.normal(*shape, scale=3), -9.75, 12.0).astype(dtype.numpy)
    if x.size > 2 * len(SPECIAL):
        x.reshape(-1)[-len(SPECIAL) :] = np.asarray(SPECIAL, np.float32).astype(dtype.numpy)
    return x


def one(bench: Bench, name: str, dtype: DType, shape: tuple[int, ...]) -> None:
    x = numbers(bench, dtype, shape)
    out = bench.out(*shape, dtype=dtype)
    bench.run(getattr(ops, name), bench.put(x), out)
    with np.errstate(all="ignore"):
        bench.elementwise(out, FORMULAS[name](wide(x)))


for _name in FORMULAS:

    @row(_name, name=[_name], dtype=FLOATS, shape=SHAPES, more=MORE)
    def activation(bench: Bench, name: str, dtype: DType, shape: tuple[int, ...]) -> None:
        one(bench, name, dtype, shape)


@row(
    "gelu",
    name=["gelu", "gelu_approx", "silu", "sigmoid", "tanh"],
    first=[-9.5, -2.0],
    more={"first": [-8.0, -6.0, -4.0, -1.0, 0.0, 2.0, 6.0]},
)
def every_step(bench: Bench, name: str, first: float) -> None:
    """Many close values, so that the places where a formula changes its form are among them."""
    x = np.linspace(first, first + 2.5, 4099, dtype=np.float32)
    out = bench.out(x.size)
    bench.run(getattr(ops, name), bench.put(x), out)
    bench.elementwise(out, FORMULAS[name](wide(x)))


for _name in GATES:

    @row(_name, name=[_name], dtype=FLOATS, shape=SHAPES[1:], more=MORE)
    def gated(bench: Bench, name: str, dtype: DType, shape: tuple[int, ...]) -> None:
        gate, up = numbers(bench, dtype, shape), bench.normal(*shape, dtype=dtype)
        out = bench.out(*shape, dtype=dtype)
        inputs = (up, gate) if name == "sigmoid_mul" else (gate, up)
        bench.run(getattr(ops, name), *map(bench.put, inputs), out=out)
        with np.errstate(all="ignore"):
            bench.elementwise(out, GATES[name](wide(gate)) * wide(up))


@row("gelu_mul", dtype=FLOATS, shape=SHAPES[1:2], more=MORE)
def exact_gelu_mul(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    gate, up = numbers(bench, dtype, shape), bench.normal(*shape, dtype=dtype)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.gelu_mul, bench.put(gate), bench.put(up), approximate=False, out=out)
    with np.errstate(all="ignore"):
        bench.elementwise(out, gelu(wide(gate)) * wide(up))


@row("softcap", dtype=FLOATS, cap=[30.0, 0.7], shape=SHAPES[1:], more={**MORE, "cap": [1.0, 50.0]})
def softcap(bench: Bench, dtype: DType, cap: float, shape: tuple[int, ...]) -> None:
    x = numbers(bench, dtype, shape)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.softcap, bench.put(x), cap, out)
    exact = float(np.float32(cap))
    bench.elementwise(out, exact * np.tanh(wide(x) / exact))
