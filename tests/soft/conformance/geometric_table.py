"""Geometric and matrix functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Check
from .layout import SCALARS

Array = NDArray[Any]


def _wide(values: Array) -> Array:
    return values.astype(np.float64)


def _dot(a: Array, b: Array) -> Array:
    return np.asarray((_wide(a) * _wide(b)).sum(-1))


def _length(a: Array) -> Array:
    return np.sqrt(_dot(a, a))


def _face(v: Any) -> Array:
    return np.where((_dot(v.y, v.z) < 0)[:, None], _wide(v.x), -_wide(v.x))


def _reflect(v: Any) -> Array:
    return np.asarray(_wide(v.x) - 2 * _dot(v.y, v.x)[:, None] * _wide(v.y))


def _refract(v: Any) -> Array:
    eta = 0.5
    i, n = (_wide(a) / np.sqrt((_wide(a) ** 2).sum(-1, keepdims=True)) for a in (v.x, v.y))
    d = (n * i).sum(-1, keepdims=True)
    k = 1 - eta * eta * (1 - d * d)
    return np.where(k < 0, 0.0, eta * i - (eta * d + np.sqrt(np.maximum(k, 0))) * n)


def vectors(scalar: str, width: int) -> Batch:
    """dot, length, normalize and the others on one vector type."""
    kind = f"{scalar}{width}"
    rng = np.random.default_rng(width)
    drawn = {name: rng.uniform(0.5, 4, (48, width)).astype(SCALARS[scalar]) for name in "xyz"}
    drawn["x"] = (drawn["x"] * rng.choice([-1, 1], (48, 1))).astype(SCALARS[scalar])
    tight, atol = (16, 1e-5) if scalar == "float" else (8, 2e-2)
    checks = [
        Check("dot", "dot(x, y)", scalar, lambda v: _dot(v.x, v.y), tight, atol),
        Check("length", "length(x)", scalar, lambda v: _length(v.x), tight, atol),
        Check("length_squared", "length_squared(x)", scalar, lambda v: _dot(v.x, v.x), tight, atol),
        Check("distance", "distance(x, y)", scalar, lambda v: _length(_wide(v.x) - _wide(v.y)), tight, atol),
        Check(
            "distance_squared",
            "distance_squared(x, y)",
            scalar,
            lambda v: _length(_wide(v.x) - _wide(v.y)) ** 2,
            tight,
            8 * atol,
        ),
        Check("normalize", "normalize(x)", kind, lambda v: _wide(v.x) / _length(v.x)[:, None], tight, atol),
        Check("faceforward", "faceforward(x, y, z)", kind, _face, tight, atol),
        Check("reflect", "reflect(x, y)", kind, _reflect, tight, 16 * atol),
        Check("refract", f"refract(normalize(x), normalize(y), {scalar}(0.5f))", kind, _refract, tight, 2 * atol),
    ]
    if width == 3:
        checks.append(Check("cross", "cross(x, y)", kind, lambda v: np.cross(_wide(v.x), _wide(v.y)), tight, 2 * atol))
    return Batch(f"geometric-{kind}", checks, {name: (kind, values) for name, values in drawn.items()})


def namespaced() -> Batch:
    """fast:: and precise:: forms of the geometric functions."""
    rng = np.random.default_rng(2)
    x, y = (rng.uniform(0.5, 4, (32, 3)).astype(np.float32) for _ in range(2))
    checks = []
    for space in ("fast", "precise"):
        checks += [
            Check(f"{space}-length", f"{space}::length(x)", "float", lambda v: _length(v.x), 64),
            Check(
                f"{space}-normalize",
                f"{space}::normalize(x)",
                "float3",
                lambda v: _wide(v.x) / _length(v.x)[:, None],
                64,
            ),
            Check(
                f"{space}-distance",
                f"{space}::distance(x, y)",
                "float",
                lambda v: _length(_wide(v.x) - _wide(v.y)),
                64,
                1e-5,
            ),
        ]
    return Batch("geometric-namespaces", checks, {"x": ("float3", x), "y": ("float3", y)})


def _times(a: Array, b: Array) -> Array:
    """Product of matrices stored column by column."""
    return np.asarray(np.einsum("nki,njk->nji", _wide(a), _wide(b)))


def matrices(scalar: str, columns: int, rows: int) -> Batch:
    """Operators, transpose and determinant of one matrix type; values are small integers, so results are exact."""
    kind, turned = f"{scalar}{columns}x{rows}", f"{scalar}{rows}x{columns}"
    rng = np.random.default_rng(columns * 10 + rows)
    dtype = SCALARS[scalar]
    high = 4 if scalar == "float" else 2
    a, b = (rng.integers(-high, high + 1, (24, columns, rows)).astype(dtype) for _ in range(2))
    u, w = rng.integers(-4, 5, (24, columns)).astype(dtype), rng.integers(-4, 5, (24, rows)).astype(dtype)
    column, row = f"{scalar}{rows}", f"{scalar}{columns}"
    listed = ", ".join(f"{{{', '.join(f'a[{c}][{r}]' for r in range(rows))}}}" for c in range(columns))
    checks = [
        Check("add", "a + b", kind, lambda v: v.a + v.b),
        Check("subtract", "a - b", kind, lambda v: v.a - v.b),
        Check("negate", "-a + b", kind, lambda v: v.b - v.a),
        Check("times-scalar", f"a * {scalar}(2)", kind, lambda v: v.a * dtype.type(2)),
        Check("scalar-times", f"{scalar}(2) * a", kind, lambda v: v.a * dtype.type(2)),
        Check("times-vector", "a * u", column, lambda v: np.einsum("nki,nk->ni", _wide(v.a), _wide(v.u)), 0),
        Check("vector-times", "w * a", row, lambda v: np.einsum("nki,ni->nk", _wide(v.a), _wide(v.w)), 0),
        Check("transpose", "transpose(a)", turned, lambda v: v.a.transpose(0, 2, 1)),
        Check(
            "product", "a * transpose(b)", f"{scalar}{rows}x{rows}", lambda v: _times(v.a, v.b.transpose(0, 2, 1)), 0
        ),
        Check("column", "a[1]", column, lambda v: v.a[:, 1]),
        Check("element", "a[1][0] + a[0].y", scalar, lambda v: v.a[:, 1, 0] + v.a[:, 0, 1]),
        Check("write", "m", kind, _written, before=f"{kind} m = a; m[1] = w; m[0][1] += {scalar}(1);"),
        Check("construct-from-lists", f"{kind}({listed})", kind, lambda v: v.a),
        Check("construct-from-lists-and-columns", f"{kind}(a[0], {listed.partition('}, ')[2]})", kind, lambda v: v.a),
        Check("list-of-lists", "m", kind, lambda v: v.a, before=f"{kind} m = {{{listed}}};"),
        Check("construct", f"{kind}({', '.join(f'a[{c}]' for c in range(columns))})", kind, lambda v: v.a),
        Check(
            "compound",
            "m",
            kind,
            lambda v: v.a + v.b - v.b * dtype.type(2),
            before=f"{kind} m = a; m += b; m -= b * {scalar}(2);",
        ),
    ]
    if columns == rows:
        diagonal = np.eye(columns) * 3
        checks += [
            Check("diagonal", f"{kind}({scalar}(3))", kind, lambda v: np.broadcast_to(diagonal, (24, columns, rows))),
            Check("determinant", "determinant(a)", scalar, lambda v: np.linalg.det(_wide(v.a)), 2, 1e-3),
            Check("square", "a * b", kind, lambda v: _times(v.a, v.b), 0),
        ]
    inputs = {"a": (kind, a), "b": (kind, b), "u": (row, u), "w": (column, w)}
    return Batch(f"matrix-{kind}", checks, inputs)


def _written(v: Any) -> Array:
    out = v.a.copy()
    out[:, 1] = v.w
    out[:, 0, 1] += out.dtype.type(1)
    return np.asarray(out)


def all_batches() -> list[Batch]:
    shapes = [("float", c, r) for c in (2, 3, 4) for r in (2, 3, 4)] + [("half", 2, 4), ("half", 4, 4), ("half", 3, 3)]
    kinds = [("float", 2), ("float", 3), ("float", 4), ("half", 3), ("half", 4)]
    return [*(vectors(*kind) for kind in kinds), namespaced(), *(matrices(*shape) for shape in shapes)]
