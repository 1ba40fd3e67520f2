"""Relational functions, comparisons and select on scalars and vectors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Check
from .layout import FLOATS, SCALARS

Array = NDArray[Any]

_SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 2.5, -65504.0, 6e-8, 3.0]
_COMPARISONS = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def _subnormal(values: Array) -> Array:
    smallest = 2.0**-14 if values.dtype == np.float16 else 2.0**-126
    wide = np.abs(values.astype(np.float64))
    return np.asarray((wide > 0) & (wide < smallest))


def _finite(v: Any) -> Array:
    return np.asarray(np.isfinite(v.x.astype(np.float64)))


def _zero(v: Any) -> Array:
    return np.asarray(v.x.astype(np.float64) == 0)


def _nan(v: Any) -> Array:
    return np.asarray(np.isnan(v.x.astype(np.float64)))


def _wide(v: Any) -> tuple[Array, Array]:
    return v.x.astype(np.float64), v.y.astype(np.float64)


def classification(scalar: str, width: int) -> Batch:
    """isnan and its kin, with every special value in every lane."""
    kind, flag = (f"{scalar}{width}", f"bool{width}") if width else (scalar, "bool")
    pool = np.array(_SPECIAL).astype(SCALARS[scalar])
    count = len(pool) * 4
    rng = np.random.default_rng(11)
    shape = (count, width) if width else (count,)
    x, y = pool[rng.integers(0, len(pool), shape)], pool[rng.integers(0, len(pool), shape)]
    checks = [
        Check("isnan", "isnan(x)", flag, _nan),
        Check("isinf", "isinf(x)", flag, lambda v: np.isinf(v.x.astype(np.float64))),
        Check("isfinite", "isfinite(x)", flag, _finite),
        Check("isnormal", "isnormal(x)", flag, lambda v: _finite(v) & ~_zero(v) & ~_subnormal(v.x)),
        Check("signbit", "signbit(x)", flag, lambda v: np.signbit(v.x.astype(np.float64))),
        Check("isordered", "isordered(x, y)", flag, lambda v: ~np.isnan(_wide(v)[0]) & ~np.isnan(_wide(v)[1])),
        Check("isunordered", "isunordered(x, y)", flag, lambda v: np.isnan(_wide(v)[0]) | np.isnan(_wide(v)[1])),
    ]
    for sign, operation in _COMPARISONS.items():
        checks.append(Check(f"x{sign}y", f"x {sign} y", flag, partial(lambda op, v: op(*_wide(v)), operation)))
    return Batch(f"relational-{kind}", checks, {"x": (kind, x), "y": (kind, y)}, math_mode=0)


def reductions(width: int) -> Batch:
    """any, all, not and select over bool vectors."""
    rng = np.random.default_rng(width)
    a = rng.integers(0, 2, (32, width)).astype(np.bool_)
    a[0], a[1] = True, False
    b = rng.integers(0, 2, (32, width)).astype(np.bool_)
    x = rng.integers(-99, 99, (32, width)).astype(np.int32)
    kind, number = f"bool{width}", f"int{width}"
    checks = [
        Check("any", "any(a)", "bool", lambda v: v.a.any(1)),
        Check("all", "all(a)", "bool", lambda v: v.a.all(1)),
        Check("not", "!a", kind, lambda v: ~v.a),
        Check("and", "a && b", kind, lambda v: v.a & v.b),
        Check("or", "a || b", kind, lambda v: v.a | v.b),
        Check("bit-and", "a & b", kind, lambda v: v.a & v.b),
        Check("bit-xor", "a ^ b", kind, lambda v: v.a ^ v.b),
        Check("equal", "a == b", kind, lambda v: v.a == v.b),
        Check("select", "select(x, -x, a)", number, lambda v: np.where(v.a, -v.x, v.x)),
        Check(
            "select-float",
            f"select(float{width}(x), float{width}(0.5f), a)",
            f"float{width}",
            lambda v: np.where(v.a, 0.5, v.x),
        ),
        Check("convert", f"{number}(a)", number, lambda v: v.a.astype(np.int32)),
        Check("from-number", f"{kind}(x)", kind, lambda v: v.x != 0),
        Check("any-compare", "any(x > 50)", "bool", lambda v: (v.x > 50).any(1)),
        Check("all-compare", "all(x > -50)", "bool", lambda v: (v.x > -50).all(1)),
        Check("ternary-any", "any(a) ? 1 : 2", "int", lambda v: np.where(v.a.any(1), 1, 2)),
    ]
    return Batch(f"bool{width}", checks, {"a": (kind, a), "b": (kind, b), "x": (number, x)})


def integer_comparisons() -> Batch:
    """Comparisons of integer vectors, vector with scalar and scalar with vector."""
    rng = np.random.default_rng(8)
    x, y = (rng.integers(-4, 5, (48, 4)).astype(np.int32) for _ in range(2))
    checks = []
    for sign, operation in _COMPARISONS.items():
        checks += [
            Check(f"v{sign}v", f"x {sign} y", "bool4", partial(lambda op, v: op(v.x, v.y), operation)),
            Check(f"v{sign}s", f"x {sign} 1", "bool4", partial(lambda op, v: op(v.x, 1), operation)),
            Check(f"s{sign}v", f"1 {sign} x", "bool4", partial(lambda op, v: op(1, v.x), operation)),
        ]
    checks.append(Check("scalar-select", "select(x.x, y.x, x.y > y.y)", "int", _scalar_select))
    return Batch("compare-int4", checks, {"x": ("int4", x), "y": ("int4", y)})


def _scalar_select(v: Any) -> Array:
    return np.asarray(np.where(v.x[:, 1] > v.y[:, 1], v.y[:, 0], v.x[:, 0]))


def all_batches() -> list[Batch]:
    scalars = [classification(scalar, 0) for scalar in FLOATS]
    vectors = [
        classification("float", 2),
        classification("float", 3),
        classification("float", 4),
        classification("half", 4),
    ]
    return [*scalars, *vectors, *(reductions(width) for width in (2, 3, 4)), integer_comparisons()]
