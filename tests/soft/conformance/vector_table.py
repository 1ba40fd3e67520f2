"""Constructors, swizzles, operators and casts of vectors; packing functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Check
from .layout import SCALARS

Array = NDArray[Any]

_LETTERS = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}
_READ = (
    "x",
    "w",
    "r",
    "a",
    "xy",
    "yx",
    "zw",
    "xx",
    "wz",
    "rg",
    "ba",
    "xyz",
    "zyx",
    "wwy",
    "rgb",
    "xyzw",
    "wzyx",
    "abgr",
    "xxxx",
    "yzwx",
)
_WRITE = ("y", "a", "xy", "wx", "zw", "rb", "xyz", "wyx", "bgr", "xyzw", "wzyx")


def _indices(swizzle: str) -> list[int]:
    return [_LETTERS[c] for c in swizzle]


def swizzles(scalar: str) -> Batch:
    """Reading and writing through swizzles."""
    kind = f"{scalar}4"
    rng = np.random.default_rng(1)
    v, u = (rng.integers(0, 90, (8, 4)).astype(SCALARS[scalar]) for _ in range(2))
    checks = []
    for swizzle in _READ:
        index = _indices(swizzle)
        result = scalar + (str(len(index)) if len(index) > 1 else "")
        take = index if len(index) > 1 else index[0]
        checks.append(Check(f"read-{swizzle}", f"v.{swizzle}", result, partial(lambda t, i: i.v[:, t], take)))
    for swizzle in _WRITE:
        index = _indices(swizzle)
        source = "u." + "xyzw"[: len(index)]
        checks.append(
            Check(
                f"write-{swizzle}",
                "t",
                kind,
                partial(lambda ix, i: _assigned(i, ix), index),
                before=f"{kind} t = v; t.{swizzle} = {source};",
            )
        )
    one = SCALARS[scalar].type(1)
    checks += [
        Check(
            "add-assign",
            "t",
            kind,
            lambda i: _added(i, [1, 2], one),
            before=f"{kind} t = v; t.yz += {scalar}2({scalar}(1));",
        ),
        Check("swap", "t", kind, lambda i: i.v[:, [1, 0, 2, 3]], before=f"{kind} t = v; t.xy = t.yx;"),
        Check("chain", "v.wzyx.xy", f"{scalar}2", lambda i: i.v[:, [3, 2]]),
        Check("element", "t", kind, lambda i: _added(i, [2], one), before=f"{kind} t = v; t[2] += {scalar}(1);"),
        Check("scalar-to-swizzle", "t", kind, _zeroed, before=f"{kind} t = v; t.xz = {scalar}(0);"),
        Check(
            "through-pointer",
            "t",
            kind,
            lambda i: _assigned(i, [0, 1]),
            before=f"{kind} t = v; thread {kind}* p = &t; p->xy = u.xy;",
        ),
        Check("dynamic-index", "v[i % 4]", scalar, lambda i: i.v[np.arange(8), np.arange(8) % 4]),
    ]
    return Batch(f"swizzle-{kind}", checks, {"v": (kind, v), "u": (kind, u)})


def _assigned(i: Any, index: list[int]) -> Array:
    out = i.v.copy()
    out[:, index] = i.u[:, : len(index)]
    return np.asarray(out)


def _added(i: Any, index: list[int], amount: Any) -> Array:
    out = i.v.copy()
    out[:, index] += amount
    return np.asarray(out)


def _zeroed(i: Any) -> Array:
    out = i.v.copy()
    out[:, [0, 2]] = 0
    return np.asarray(out)


def constructors(scalar: str) -> Batch:
    """Every way to put a vector together."""
    dtype = SCALARS[scalar]
    v = np.random.default_rng(2).integers(1, 90, (8, 4)).astype(dtype)
    four, three, two = (f"{scalar}{n}" for n in (4, 3, 2))
    rows: tuple[tuple[str, str, list[int]], ...] = (
        ("scalars4", f"{four}(v.x, v.y, v.z, v.w)", [0, 1, 2, 3]),
        ("splat4", f"{four}(v.y)", [1, 1, 1, 1]),
        ("two-two", f"{four}(v.xy, v.xy)", [0, 1, 0, 1]),
        ("three-one", f"{four}(v.xyz, v.x)", [0, 1, 2, 0]),
        ("one-three", f"{four}(v.w, v.xyz)", [3, 0, 1, 2]),
        ("two-one-one", f"{four}(v.zw, v.x, v.y)", [2, 3, 0, 1]),
        ("one-two-one", f"{four}(v.x, v.zw, v.y)", [0, 2, 3, 1]),
        ("one-one-two", f"{four}(v.x, v.y, v.wz)", [0, 1, 3, 2]),
        ("copy4", f"{four}(v)", [0, 1, 2, 3]),
        ("scalars3", f"{three}(v.z, v.y, v.x)", [2, 1, 0]),
        ("two-one", f"{three}(v.yz, v.x)", [1, 2, 0]),
        ("one-two", f"{three}(v.x, v.zw)", [0, 2, 3]),
        ("splat3", f"{three}(v.w)", [3, 3, 3]),
        ("scalars2", f"{two}(v.w, v.x)", [3, 0]),
        ("splat2", f"{two}(v.z)", [2, 2]),
        ("braces", f"{four}{{v.x, v.y, v.w, v.z}}", [0, 1, 3, 2]),
        ("vec-template", f"vec<{scalar}, 3>(v.x, v.y, v.z)", [0, 1, 2]),
    )
    checks = [Check(n, e, f"{scalar}{len(ix)}", partial(lambda t, i: i.v[:, t], ix)) for n, e, ix in rows]
    checks.append(Check("zero", f"{four}()", four, np.zeros(4)))
    checks.append(
        Check(
            "list-initialised", "t", four, lambda i: i.v[:, [3, 2, 1, 0]], before=f"{four} t = {{v.w, v.z, v.y, v.x}};"
        )
    )
    checks.append(Check("packed", f"{three}(packed_{three}(v.xyz))", three, lambda i: i.v[:, :3]))
    return Batch(f"construct-{scalar}", checks, {"v": (four, v)})


_ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply}


def operators(scalar: str, width: int) -> Batch:
    """Vector with vector, vector with scalar, scalar with vector, compound forms, of small exact values."""
    kind, dtype = f"{scalar}{width}", SCALARS[scalar]
    rng = np.random.default_rng(width)
    v, u = (rng.integers(1, 10, (8, width)).astype(dtype) for _ in range(2))
    s = rng.integers(1, 8, 8).astype(dtype)
    checks = []
    for sign, op in _ARITHMETIC.items():
        checks += [
            Check(f"v{sign}v", f"v {sign} u", kind, partial(lambda f, i: f(i.v, i.u), op)),
            Check(f"v{sign}s", f"v {sign} s", kind, partial(lambda f, i: f(i.v, i.s[:, None]), op)),
            Check(f"s{sign}v", f"s {sign} v", kind, partial(lambda f, i: f(i.s[:, None], i.v), op)),
            Check(f"v{sign}=u", "t", kind, partial(lambda f, i: f(i.v, i.u), op), before=f"{kind} t = v; t {sign}= u;"),
            Check(
                f"v{sign}=s",
                "t",
                kind,
                partial(lambda f, i: f(i.v, i.s[:, None]), op),
                before=f"{kind} t = v; t {sign}= s;",
            ),
        ]
    if dtype.kind in "iu":
        checks += _integer_operators(kind)
    else:
        divided = lambda i: i.v.astype(np.float64) / i.u.astype(np.float64)  # noqa: E731
        checks += [Check("v/u", "v / u", kind, divided, 3), Check("negate", "-v", kind, lambda i: -i.v)]
        checks.append(
            Check("s/v", "s / v", kind, lambda i: i.s[:, None].astype(np.float64) / i.v.astype(np.float64), 3)
        )
    return Batch(f"operators-{kind}", checks, {"v": (kind, v), "u": (kind, u), "s": (scalar, s)})


def _integer_operators(kind: str) -> list[Check]:
    return [
        Check("v/u", "v / u", kind, lambda i: i.v // i.u),
        Check("v%u", "v % u", kind, lambda i: i.v % i.u),
        Check("v/s", "v / s", kind, lambda i: i.v // i.s[:, None]),
        Check("v&u", "v & u", kind, lambda i: i.v & i.u),
        Check("v|u", "v | u", kind, lambda i: i.v | i.u),
        Check("v^u", "v ^ u", kind, lambda i: i.v ^ i.u),
        Check("~v", "~v & u", kind, lambda i: ~i.v & i.u),
        Check("v<<1", "v << 1", kind, lambda i: i.v << 1),
        Check("v>>1", "v >> 1", kind, lambda i: i.v >> 1),
        Check("v<<u", f"v << (u & {kind}(3))", kind, lambda i: i.v << (i.u & 3)),
        Check("v&=s", "t", kind, lambda i: i.v & i.s[:, None], before=f"{kind} t = v; t &= s;"),
        Check("v<<=1", "t", kind, lambda i: i.v << 1, before=f"{kind} t = v; t <<= 1;"),
        Check("++v", "++t", kind, lambda i: i.v + 1, before=f"{kind} t = v;"),
    ]


def all_batches() -> list[Batch]:
    kinds = (
        ("float", 2),
        ("float", 3),
        ("float", 4),
        ("half", 4),
        ("bfloat", 4),
        ("bfloat", 2),
        ("int", 3),
        ("uint", 4),
        ("uchar", 4),
        ("short", 2),
        ("long", 2),
    )
    swizzled = [swizzles(s) for s in ("float", "half", "bfloat", "int", "uchar", "ulong")]
    built = [constructors(s) for s in ("float", "half", "bfloat", "uint", "short", "long")]
    return [*swizzled, *built, *(operators(*kind) for kind in kinds)]
