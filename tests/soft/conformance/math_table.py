"""Floating-point functions of MSL: domains, float64 references and error bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Check
from .layout import SCALARS, layout

Array = NDArray[Any]
Interval = tuple[float, float]

COUNT = 96


@dataclass(frozen=True)
class Function:
    """A builtin of one to three arguments; `ulp` bounds float, None means exact; halves are rounded once or twice."""

    name: str
    reference: Callable[..., Any]
    domains: tuple[Interval, ...]
    ulp: float | None = None
    small_ulp: float | None = None  # for half and bfloat, when not 1

    def bound(self, scalar: str) -> float | None:
        if self.ulp is None or scalar == "float":
            return self.ulp
        return 1.0 if self.small_ulp is None else self.small_ulp


ANY = (-30.0, 30.0)
UNIT = (-1.0, 1.0)
POSITIVE = (0.01, 60.0)


def _fract(x: Array) -> Array:
    return np.asarray(np.minimum(x - np.floor(x), 1 - 2.0**-24))


def _round(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _smoothstep(a: Array, b: Array, x: Array) -> Array:
    t = np.clip((x - a) / (b - a), 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def _median(a: Array, b: Array, c: Array) -> Array:
    return np.asarray(np.median(np.stack([a, b, c]), axis=0))


UNARY = (
    Function("acos", np.arccos, (UNIT,), 4),
    Function("acosh", np.arccosh, ((1.01, 50.0),), 4),
    Function("asin", np.arcsin, (UNIT,), 4),
    Function("asinh", np.arcsinh, (ANY,), 4),
    Function("atan", np.arctan, (ANY,), 5),
    Function("atanh", np.arctanh, ((-0.99, 0.99),), 5),
    Function("ceil", np.ceil, (ANY,)),
    Function("cos", np.cos, (ANY,), 4),
    Function("cosh", np.cosh, ((-8.0, 8.0),), 4),
    Function("cospi", lambda x: np.cos(np.pi * (x - 2 * np.round(x / 2))), ((-0.45, 0.45),), 4),
    Function("exp", np.exp, ((-9.0, 9.0),), 4),
    Function("exp2", np.exp2, ((-12.0, 12.0),), 4),
    Function("exp10", lambda x: np.power(10.0, x), ((-4.0, 4.0),), 4),
    Function("fabs", np.abs, (ANY,)),
    Function("abs", np.abs, (ANY,)),
    Function("floor", np.floor, (ANY,)),
    Function("fract", _fract, (ANY,), 1),
    Function("log", np.log, (POSITIVE,), 4),
    Function("log2", np.log2, (POSITIVE,), 4),
    Function("log10", np.log10, (POSITIVE,), 4),
    Function("rint", np.rint, (ANY,)),
    Function("round", _round, (ANY,)),
    Function("rsqrt", lambda x: 1 / np.sqrt(x), (POSITIVE,), 2),
    Function("saturate", lambda x: np.clip(x, 0, 1), ((-2.0, 2.0),)),
    Function("sign", np.sign, (ANY,)),
    Function("sin", np.sin, (ANY,), 4),
    Function("sinh", np.sinh, ((-8.0, 8.0),), 4),
    Function("sinpi", lambda x: np.sin(np.pi * x), ((-0.95, 0.95),), 4),
    Function("sqrt", np.sqrt, (POSITIVE,), 1),
    Function("tan", np.tan, ((-1.4, 1.4),), 6),
    Function("tanh", np.tanh, ((-6.0, 6.0),), 5),
    Function("tanpi", lambda x: np.tan(np.pi * x), ((-0.45, 0.45),), 6),
    Function("trunc", np.trunc, (ANY,)),
)

BINARY = (
    Function("atan2", np.arctan2, (ANY, ANY), 6),
    Function("copysign", np.copysign, (ANY, ANY)),
    Function("divide", np.divide, (ANY, POSITIVE), 3),
    Function("fdim", lambda x, y: np.maximum(x - y, 0), (ANY, ANY), 1),
    Function("fmax", np.fmax, (ANY, ANY)),
    Function("fmin", np.fmin, (ANY, ANY)),
    Function("fmod", np.fmod, (ANY, POSITIVE), 1),
    Function("max", np.fmax, (ANY, ANY)),
    Function("min", np.fmin, (ANY, ANY)),
    Function("pow", np.power, ((0.05, 8.0), (-3.0, 3.0)), 16, 2),
    Function("powr", np.power, ((0.05, 8.0), (-3.0, 3.0)), 16, 2),
    Function("step", lambda edge, x: np.where(x < edge, 0.0, 1.0), (ANY, ANY)),
)

TERNARY = (
    Function("clamp", lambda x, low, high: np.fmin(np.fmax(x, low), high), (ANY, (-20.0, -5.0), (5.0, 20.0))),
    Function("fma", lambda x, y, z: x * y + z, (POSITIVE, POSITIVE, POSITIVE), 1),
    Function("fmax3", lambda x, y, z: np.fmax(np.fmax(x, y), z), (ANY, ANY, ANY)),
    Function("fmin3", lambda x, y, z: np.fmin(np.fmin(x, y), z), (ANY, ANY, ANY)),
    Function("fmedian3", _median, (ANY, ANY, ANY)),
    Function("max3", lambda x, y, z: np.fmax(np.fmax(x, y), z), (ANY, ANY, ANY)),
    Function("min3", lambda x, y, z: np.fmin(np.fmin(x, y), z), (ANY, ANY, ANY)),
    Function("median3", _median, (ANY, ANY, ANY)),
    Function("mix", lambda x, y, a: x + (y - x) * a, (POSITIVE, POSITIVE, (0.0, 1.0)), 8, 8),
    Function("smoothstep", _smoothstep, ((-3.0, -2.0), (2.0, 3.0), (-4.0, 4.0)), 24, 16),
)

# Only those that MSL lists in the metal::fast and metal::precise namespaces.
NAMESPACED = [
    f for f in (*UNARY, *BINARY, *TERNARY) if f.name not in {"abs", "sign", "step", "mix", "smoothstep", "divide"}
]


def samples(domain: Interval, scalar: str, shape: Sequence[int], seed: int) -> Array:
    """Values inside `domain`, exact in the scalar type."""
    drawn = np.random.default_rng(seed).uniform(*domain, size=tuple(shape))
    return drawn.astype(SCALARS[scalar])


def _call_check(function: Function, kind: str, scalar: str, slot: int) -> Check:
    names = [f"a{slot}_{n}" for n in range(len(function.domains))]

    def expected(inputs: Any) -> Array:
        wide = [getattr(inputs, name).astype(np.float64) for name in names]
        return np.asarray(function.reference(*wide))

    call = f"{function.name}({', '.join(names)})"
    # A bfloat argument becomes float, and float does not go back by itself.
    expression = f"bfloat({call})" if kind == "bfloat" else call
    return Check(function.name, expression, kind, expected, function.bound(scalar))


def _inputs(function: Function, kind: str, scalar: str, slot: int) -> dict[str, tuple[str, Array]]:
    shape = (COUNT, *layout(kind).shape)
    return {
        f"a{slot}_{n}": (kind, samples(domain, scalar, shape, 17 * slot + n))
        for n, domain in enumerate(function.domains)
    }


def family(name: str, functions: Sequence[Function], scalar: str, width: int = 0) -> list[Batch]:
    """The functions over one type, a few functions per kernel so that every one has its own inputs."""
    kind = scalar + (str(width) if width else "")
    batches: list[Batch] = []
    per_kernel = 28 // max(len(f.domains) for f in functions)
    for start in range(0, len(functions), per_kernel):
        part = functions[start : start + per_kernel]
        inputs: dict[str, tuple[str, Array]] = {}
        for slot, function in enumerate(part):
            inputs |= _inputs(function, kind, scalar, slot)
        checks = [_call_check(function, kind, scalar, slot) for slot, function in enumerate(part)]
        batches.append(Batch(f"{name}-{kind}", checks, inputs))
    return batches


def namespaced(space: str, rtol: float) -> list[Batch]:
    """The same functions as `fast::f` or `precise::f` on float; `rtol` widens the bounds."""
    batches = []
    for arity in (1, 2, 3):
        part = [f for f in NAMESPACED if len(f.domains) == arity]
        for batch in family(space, part, "float"):
            checks = [
                Check(c.name, f"{space}::{c.expression}", c.result, c.expected, _looser(c.ulp, rtol), rtol)
                for c in batch.checks
            ]
            batches.append(Batch(f"{space}-{arity}", checks, batch.inputs))
    return batches


def _looser(ulp: float | None, rtol: float) -> float | None:
    return ulp if ulp is None else ulp + rtol * 2**24


# Those that have integer forms too, so that a bfloat could become either; MSL has none for bfloat.
NOT_BFLOAT = ("abs", "min", "max", "clamp", "min3", "max3", "median3")


def all_batches() -> list[Batch]:
    batches = []
    for arity, functions in (("unary", UNARY), ("binary", BINARY), ("ternary", TERNARY)):
        for scalar, width in (
            ("float", 0),
            ("half", 0),
            ("bfloat", 0),
            ("float", 2),
            ("float", 3),
            ("float", 4),
            ("half", 4),
        ):
            taken = [f for f in functions if scalar != "bfloat" or f.name not in NOT_BFLOAT]
            batches += family(arity, taken, scalar, width)
    return [*batches, *namespaced("precise", 0.0), *namespaced("fast", 2e-4)]
