"""Integer functions of MSL for every width, against exact Python integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Check
from .layout import INTEGERS, SCALARS, layout

Array = NDArray[Any]
COUNT = 64


@dataclass(frozen=True)
class Width:
    """One integer type."""

    name: str
    bits: int
    signed: bool

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << (self.bits - (1 if self.signed else 0))) - 1

    def wrap(self, value: int) -> int:
        masked = value & ((1 << self.bits) - 1)
        return masked - (1 << self.bits) if masked > self.high else masked

    def unsigned(self, value: int) -> int:
        return value & ((1 << self.bits) - 1)

    def saturate(self, value: int) -> int:
        return min(max(value, self.low), self.high)


WIDTHS = {name: Width(name, SCALARS[name].itemsize * 8, not name.startswith("u")) for name in INTEGERS}

Reference = Callable[..., int]


def _extract(w: Width, x: int, offset: int, bits: int) -> int:
    field = (w.unsigned(x) >> offset) & ((1 << bits) - 1)
    return field - (1 << bits) if w.signed and bits and field >> (bits - 1) else field


def _insert(w: Width, base: int, y: int, offset: int, bits: int) -> int:
    mask = ((1 << bits) - 1) << offset
    return (w.unsigned(base) & ~mask) | ((w.unsigned(y) << offset) & mask)


def _clz(w: Width, x: int) -> int:
    return w.bits - w.unsigned(x).bit_length()


def _ctz(w: Width, x: int) -> int:
    u = w.unsigned(x)
    return (u & -u).bit_length() - 1 if u else w.bits


def _rotate(w: Width, x: int, n: int) -> int:
    u, k = w.unsigned(x), n % w.bits
    return (u << k | u >> (w.bits - k)) if k else u


def _reverse(w: Width, x: int) -> int:
    return int(format(w.unsigned(x), f"0{w.bits}b")[::-1], 2)


# Expression over x, y, z and its exact value; k is a shift inside the width, o and n an offset and count of bits.
FUNCTIONS: tuple[tuple[str, str, Reference], ...] = (
    ("abs", "abs(x)", lambda w, x, y, z: abs(x)),
    ("absdiff", "T(absdiff(x, y))", lambda w, x, y, z: abs(x - y)),
    ("addsat", "addsat(x, y)", lambda w, x, y, z: w.saturate(x + y)),
    ("subsat", "subsat(x, y)", lambda w, x, y, z: w.saturate(x - y)),
    ("clamp", "clamp(x, min(y, z), max(y, z))", lambda w, x, y, z: min(max(x, min(y, z)), max(y, z))),
    ("clz", "clz(x)", lambda w, x, y, z: _clz(w, x)),
    ("clz-zero", "clz(T(x & T(0)))", lambda w, x, y, z: w.bits),
    ("ctz", "ctz(x)", lambda w, x, y, z: _ctz(w, x)),
    ("ctz-zero", "ctz(T(x & T(0)))", lambda w, x, y, z: w.bits),
    ("extract_bits", "extract_bits(x, 2, 5)", lambda w, x, y, z: _extract(w, x, 2, 5)),
    ("extract_bits-all", "extract_bits(x, 0, sizeof(T) * 8)", lambda w, x, y, z: x),
    ("insert_bits", "insert_bits(x, y, 1, 4)", lambda w, x, y, z: _insert(w, x, y, 1, 4)),
    ("hadd", "hadd(x, y)", lambda w, x, y, z: (x + y) >> 1),
    ("rhadd", "rhadd(x, y)", lambda w, x, y, z: (x + y + 1) >> 1),
    ("madhi", "madhi(x, y, z)", lambda w, x, y, z: (x * y >> w.bits) + z),
    ("madsat", "madsat(x, y, z)", lambda w, x, y, z: w.saturate(x * y + z)),
    ("mulhi", "mulhi(x, y)", lambda w, x, y, z: x * y >> w.bits),
    ("max", "max(x, y)", lambda w, x, y, z: max(x, y)),
    ("min", "min(x, y)", lambda w, x, y, z: min(x, y)),
    ("max3", "max3(x, y, z)", lambda w, x, y, z: max(x, y, z)),
    ("min3", "min3(x, y, z)", lambda w, x, y, z: min(x, y, z)),
    ("median3", "median3(x, y, z)", lambda w, x, y, z: sorted((x, y, z))[1]),
    ("popcount", "popcount(x)", lambda w, x, y, z: w.unsigned(x).bit_count()),
    ("reverse_bits", "reverse_bits(x)", lambda w, x, y, z: _reverse(w, x)),
    ("rotate", "rotate(x, T(3))", lambda w, x, y, z: _rotate(w, x, 3)),
    ("rotate-by-value", "rotate(x, y)", lambda w, x, y, z: _rotate(w, x, w.unsigned(y))),
    ("add", "T(x + y)", lambda w, x, y, z: x + y),
    ("subtract", "T(x - y)", lambda w, x, y, z: x - y),
    ("multiply", "T(x * y)", lambda w, x, y, z: x * y),
    ("divide", "T(x / (z | T(1)))", lambda w, x, y, z: _truncated(w, x, z | 1)),
    ("remainder", "T(x % (z | T(1)))", lambda w, x, y, z: x - _truncated(w, x, z | 1) * (z | 1)),
    ("bits", "T((x & y) | (~x & z) ^ y)", lambda w, x, y, z: (x & y) | ((~x & z) ^ y)),
    ("shift-left", "T(x << 3)", lambda w, x, y, z: x << 3),
    ("shift-right", "T(x >> 3)", lambda w, x, y, z: x >> 3),
    ("negate", "T(-x)", lambda w, x, y, z: -x),
    ("limits-max", "numeric_limits<T>::max()", lambda w, x, y, z: w.high),
    ("limits-min", "numeric_limits<T>::min()", lambda w, x, y, z: w.low),
    ("limits-lowest", "numeric_limits<T>::lowest()", lambda w, x, y, z: w.low),
    ("limits-digits", "numeric_limits<T>::digits", lambda w, x, y, z: w.bits - w.signed),
    ("increment", "T(r + q)", lambda w, x, y, z: 2 * x + 1),
    ("compound", "q", lambda w, x, y, z: w.wrap(w.wrap(x * y) + z) ^ y),
    ("select", "select(x, y, z > x)", lambda w, x, y, z: y if z > x else x),
)

FUNCTIONS_32: tuple[tuple[str, str, Reference], ...] = (
    ("mul24", "mul24(x >> 9, y >> 9)", lambda w, x, y, z: (x >> 9) * (y >> 9)),
    ("mad24", "mad24(x >> 9, y >> 9, z)", lambda w, x, y, z: (x >> 9) * (y >> 9) + z),
)

# Statements needed before an expression.
_BEFORE = {"increment": "T q = x; T r = q++;", "compound": "T q = x; q *= y; q += z; q ^= y;"}


def _truncated(w: Width, x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def operand(w: Width, shape: tuple[int, ...], seed: int) -> Array:
    """Values of every magnitude, with the corners first."""
    rng = np.random.default_rng(seed)
    corners = [0, 1, w.high, w.low, w.high - 1, w.low + 1, 7 % w.high]
    total = int(np.prod(shape))
    drawn = [w.wrap(int(rng.integers(0, 1 << 63)) >> int(rng.integers(64 - w.bits, 63))) for _ in range(total)]
    rotated = [corners[(k + seed) % len(corners)] for k in range(len(corners))]
    return np.array((rotated + drawn)[:total], dtype=SCALARS[w.name]).reshape(shape)


def _expected(w: Width, reference: Reference) -> Callable[[Any], Array]:
    def values(v: Any) -> Array:
        flat = zip(v.x.ravel().tolist(), v.y.ravel().tolist(), v.z.ravel().tolist(), strict=True)
        exact = [w.wrap(reference(w, *row)) for row in flat]
        return np.array(exact, dtype=SCALARS[w.name]).reshape(v.x.shape)

    return values


def _batch(w: Width, width: int) -> Batch:
    kind = w.name + (str(width) if width else "")
    rows = FUNCTIONS + (FUNCTIONS_32 if w.bits == 32 else ())
    if width:
        rows = tuple(r for r in rows if not r[0].startswith("limits") and r[0] != "extract_bits-all")
    checks = []
    for name, expression, reference in rows:
        checks.append(Check(name, expression, kind, _expected(w, reference), before=_BEFORE.get(name, "")))
    shape = (COUNT, *layout(kind).shape)
    inputs = {name: (kind, operand(w, shape, seed)) for seed, name in enumerate("xyz")}
    return Batch(f"integer-{kind}", checks, inputs, before=f"  typedef {kind} T;")


def all_batches() -> list[Batch]:
    scalars = [_batch(w, 0) for w in WIDTHS.values()]
    vectors = [
        _batch(WIDTHS[name], width)
        for name, width in (("int", 4), ("uint", 3), ("uchar", 4), ("short", 2), ("long", 2))
    ]
    return scalars + vectors
