"""Special values, functions with more than one result, and corner cases that MSL defines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Check
from .layout import SCALARS

Array = NDArray[Any]
INF, NAN = np.inf, np.nan

# Expression in MSL with literals only, and its value.
LITERALS: tuple[tuple[str, float], ...] = (
    ("sin(x * 0.0f)", 0.0),
    ("cos(x * 0.0f)", 1.0),
    ("exp(x * 0.0f)", 1.0),
    ("exp(-INFINITY * x)", 0.0),
    ("exp(INFINITY * x)", INF),
    ("exp(x * 200.0f)", INF),
    ("exp(x * -200.0f)", 0.0),
    ("exp2(x * 10.0f)", 1024.0),
    ("log(x * 0.0f)", -INF),
    ("log(x)", 0.0),
    ("log(-x)", NAN),
    ("log(INFINITY * x)", INF),
    ("log2(x * 1024.0f)", 10.0),
    ("log10(x * 1000.0f)", 3.0),
    ("sqrt(-x)", NAN),
    ("sqrt(x * 0.0f)", 0.0),
    ("sqrt(x * INFINITY)", INF),
    ("rsqrt(x * 0.0f)", INF),
    ("rsqrt(x * INFINITY)", 0.0),
    ("x / 0.0f", INF),
    ("-x / 0.0f", -INF),
    ("(x - 1.0f) / 0.0f", NAN),
    ("pow(x * 2.0f, 10.0f)", 1024.0),
    ("pow(x * -2.0f, 3.0f)", -8.0),
    ("pow(x * 7.0f, 0.0f)", 1.0),
    ("pow(x * 0.0f, 2.0f)", 0.0),
    ("pow(x * 0.0f, -1.0f)", INF),
    ("pow(x * -2.0f, 0.5f)", NAN),
    ("powr(x * 2.0f, 3.0f)", 8.0),
    ("fmax(x, NAN)", 1.0),
    ("fmin(NAN, x)", 1.0),
    ("fmax(NAN * x, NAN)", NAN),
    ("max(x, 2.0f)", 2.0),
    ("copysign(x, -0.0f)", -1.0),
    ("fabs(-0.0f * x)", 0.0),
    ("floor(x * -0.5f)", -1.0),
    ("ceil(x * -0.5f)", -0.0),
    ("trunc(x * -0.5f)", -0.0),
    ("round(x * 2.5f)", 3.0),
    ("round(x * -2.5f)", -3.0),
    ("round(x * 0.49999997f)", 0.0),
    ("rint(x * 2.5f)", 2.0),
    ("rint(x * 3.5f)", 4.0),
    ("rint(x * -0.2f)", -0.0),
    ("fract(x * -0.25f)", 0.75),
    ("sign(x * -0.0f)", -0.0),
    ("sign(NAN * x)", 0.0),
    ("saturate(x * 3.0f)", 1.0),
    ("saturate(x * -3.0f)", 0.0),
    ("fmod(x * -5.5f, 3.0f)", -2.5),
    ("atan2(x * 0.0f, -x)", float(np.float32(np.pi))),
    ("atan2(x, x * 0.0f)", float(np.float32(np.pi / 2))),
    ("atan(x * INFINITY)", float(np.float32(np.pi / 2))),
    ("tanh(x * 50.0f)", 1.0),
    ("tanh(x * -INFINITY)", -1.0),
    ("cosh(x * INFINITY)", INF),
    ("acos(x)", 0.0),
    ("acosh(x)", 0.0),
    ("acos(x * 2.0f)", NAN),
    ("sinpi(x)", 0.0),
    ("cospi(x)", -1.0),
    ("cospi(x * 0.5f)", 0.0),
    ("sinpi(x * 0.5f)", 1.0),
    ("tanpi(x * 0.25f)", 1.0),
    ("ldexp(x * 0.75f, 4)", 12.0),
    ("ldexp(x, -2)", 0.25),
    ("ldexp(x, 200)", INF),
    ("nextafter(x, 2.0f)", 1 + 2.0**-23),
    ("nextafter(x, 0.0f)", 1 - 2.0**-24),
    ("nextafter(x * 0.0f, 1.0f)", 2.0**-149),
    ("fma(x * 1.00000012f, 1.00000012f, -1.0f)", (1 + 2.0**-23) ** 2 - 1),
    ("fdim(x, 3.0f)", 0.0),
    ("fdim(x * 3.0f, 1.0f)", 2.0),
    ("clamp(x * 5.0f, -1.0f, 2.0f)", 2.0),
    ("mix(x * 2.0f, 4.0f, 0.25f)", 2.5),
    ("step(x, 1.0f)", 1.0),
    ("smoothstep(0.0f, 2.0f, x)", 0.5),
    ("fmedian3(x, 3.0f, 2.0f)", 2.0),
    ("x * 1e-40f * 1e10f", float(np.float32(np.float32(1e-40) * np.float32(1e10)))),
    ("HUGE_VALF * x", INF),
    ("MAXFLOAT * x", float(np.finfo(np.float32).max)),
    ("M_PI_F * x", float(np.float32(np.pi))),
    ("M_E_F * x", float(np.float32(np.e))),
    ("M_LOG2E_F * x", float(np.float32(np.log2(np.e)))),
    ("M_LOG10E_F * x", float(np.float32(np.log10(np.e)))),
    ("M_LN2_F * x", float(np.float32(np.log(2)))),
    ("M_LN10_F * x", float(np.float32(np.log(10)))),
    ("M_PI_2_F * x", float(np.float32(np.pi / 2))),
    ("M_PI_4_F * x", float(np.float32(np.pi / 4))),
    ("M_1_PI_F * x", float(np.float32(1 / np.pi))),
    ("M_2_PI_F * x", float(np.float32(2 / np.pi))),
    ("M_2_SQRTPI_F * x", float(np.float32(2 / np.sqrt(np.pi)))),
    ("M_SQRT2_F * x", float(np.float32(np.sqrt(2)))),
    ("M_SQRT1_2_F * x", float(np.float32(np.sqrt(0.5)))),
    ("FLT_EPSILON * x", 2.0**-23),
    ("FLT_MIN * x", 2.0**-126),
    ("float(M_PI_H)", float(np.float16(np.pi))),
    ("float(MAXHALF)", 65504.0),
)

# Values that a polynomial may miss by a unit or two; zero results stay zero.
_LOOSE = {
    "sinpi",
    "cospi",
    "tanpi",
    "atan",
    "atan2",
    "log10",
    "log2",
    "exp2",
    "pow",
    "powr",
    "mix",
    "smoothstep",
    "tanh",
    "M_2",
}


def _literal_check(expression: str, value: float) -> Check:
    head = expression.split("(")[0]
    if value == 0.0 and head == "cospi":
        return Check(expression, expression, "float", value, ulp=0, atol=1e-7)
    loose = head in _LOOSE and np.isfinite(value) and value != 0.0
    if head == "sinpi" and value == 0.0:
        return Check(expression, expression, "float", value, ulp=0, atol=2e-7)
    return Check(expression, expression, "float", value, ulp=2 if loose else None)


def literals() -> Batch:
    ones = np.ones(40, dtype=np.float32)
    return Batch("special", [_literal_check(*row) for row in LITERALS], {"x": ("float", ones)}, math_mode=0)


def _wide(v: Any) -> Array:
    return np.asarray(v.x.astype(np.float64))


def _frexp(part: int) -> Callable[[Any], Array]:
    return lambda v: np.asarray(np.frexp(v.x.astype(np.float32))[part])


def several_results(scalar: str) -> Batch:
    """frexp, modf, sincos, ilogb, ldexp: results through references."""
    values = np.random.default_rng(3).uniform(-40, 40, 64).astype(SCALARS[scalar])
    powers = np.random.default_rng(4).integers(-6, 7, 64).astype(np.int32)
    checks = [
        Check("frexp", "frexp(x, e)", scalar, _frexp(0), before="int e;"),
        Check("frexp-exponent", "e", "int", _frexp(1), before="int e; frexp(x, e);"),
        Check("modf", "modf(x, w)", scalar, lambda v: np.modf(_wide(v))[0], before=f"{scalar} w;"),
        Check("modf-whole", "w", scalar, lambda v: np.modf(_wide(v))[1], before=f"{scalar} w; modf(x, w);"),
        Check("sincos", "sincos(x, c)", scalar, lambda v: np.sin(_wide(v)), 4, before=f"{scalar} c;"),
        Check("sincos-cosine", "c", scalar, lambda v: np.cos(_wide(v)), 4, before=f"{scalar} c; sincos(x, c);"),
        Check("ilogb", "ilogb(x)", "int", lambda v: np.floor(np.log2(np.abs(_wide(v))))),
        Check("ldexp", "ldexp(x, p)", scalar, lambda v: np.ldexp(_wide(v), v.p)),
    ]
    return Batch(f"references-{scalar}", checks, {"x": (scalar, values), "p": ("int", powers)})


def vector_references() -> Batch:
    """The same with vectors, and scalars mixed into vector calls."""
    x = np.random.default_rng(5).uniform(-9, 9, (32, 3)).astype(np.float32)
    s = np.random.default_rng(6).uniform(-9, 9, 32).astype(np.float32)
    checks = [
        Check("frexp", "frexp(x, e)", "float3", lambda v: np.frexp(v.x)[0], before="int3 e;"),
        Check("frexp-exponent", "e", "int3", lambda v: np.frexp(v.x)[1], before="int3 e; frexp(x, e);"),
        Check("modf", "modf(x, w)", "float3", lambda v: np.modf(v.x)[0], before="float3 w;"),
        Check("sincos", "sincos(x, c)", "float3", lambda v: np.sin(_wide(v)), 4, before="float3 c;"),
        Check("sincos-cosine", "c", "float3", lambda v: np.cos(_wide(v)), 4, before="float3 c; sincos(x, c);"),
        Check("ilogb", "ilogb(x)", "int3", lambda v: np.floor(np.log2(np.abs(_wide(v))))),
        Check("ldexp", "ldexp(x, int3(1, 2, 3))", "float3", lambda v: np.ldexp(v.x, [1, 2, 3])),
        Check("max-scalar", "max(x, s)", "float3", lambda v: np.maximum(v.x, v.s[:, None])),
        Check("min-scalar", "min(x, s)", "float3", lambda v: np.minimum(v.x, v.s[:, None])),
        Check("fmax-scalar", "fmax(x, s)", "float3", lambda v: np.maximum(v.x, v.s[:, None])),
        Check("clamp-scalar", "clamp(x, -1.0f, 1.0f)", "float3", lambda v: np.clip(v.x, -1, 1)),
        Check("mix-scalar", "mix(x, x + 1.0f, 0.5f)", "float3", lambda v: _wide(v) + 0.5, 8),
        Check("step-scalar", "step(0.0f, x)", "float3", lambda v: (v.x >= 0).astype(np.float32)),
        Check("pow-vector", "pow(abs(x), float3(2))", "float3", lambda v: _wide(v) ** 2, 16),
    ]
    return Batch("references-float3", checks, {"x": ("float3", x), "s": ("float", s)})


def all_batches() -> list[Batch]:
    return [literals(), vector_references(), several_results("float"), several_results("half")]
