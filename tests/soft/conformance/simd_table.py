"""Simdgroup and quadgroup functions over every type they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Check
from .layout import layout

Array = NDArray[Any]
THREADS = 64
PARAMETERS = "uint lane [[thread_index_in_simdgroup]], uint quad [[thread_index_in_quadgroup]]"
Lanes = Callable[[Array], Array]

FLOATING = ("float", "half", "float2", "float3", "float4", "half2", "half4")
INTEGRAL = ("int", "uint", "short", "ushort", "char", "uchar", "int2", "uint4", "ushort3", "char4")


def _groups(function: Lanes, width: int) -> Callable[[Any], Array]:
    """Applies a function of (groups, lanes, ...) to the flat input."""

    def expected(v: Any) -> Array:
        wide = v.x.astype(np.int64)
        grouped = wide.reshape(THREADS // width, width, *v.x.shape[1:])
        result = np.broadcast_to(function(grouped), grouped.shape)
        return np.asarray(result.reshape(v.x.shape)).astype(v.x.dtype)

    return expected


def _keep(reduce: Any) -> Lanes:
    return lambda g: reduce(g, axis=1, keepdims=True)


def _pick(index: Callable[[Array, int], Array]) -> Lanes:
    return lambda g: g[:, index(np.arange(g.shape[1]), g.shape[1])]


def _exclusive(accumulate: Any, start: int) -> Lanes:
    def shifted(g: Array) -> Array:
        inclusive = accumulate(g, axis=1)
        first = np.full_like(inclusive[:, :1], start)
        return np.concatenate([first, inclusive[:, :-1]], axis=1)

    return shifted


def _fill(delta: int, modulo: int | None, offset: int) -> Lanes:
    """Shuffle with fill: lanes that reach outside their block take `x + offset` from the other end."""

    def moved(g: Array) -> Array:
        width = modulo or g.shape[1]
        lanes = np.arange(g.shape[1])
        block, inside = lanes // width * width, lanes % width
        source = inside + delta
        outside = (source < 0) | (source >= width)
        taken = g[:, block + source % width]
        mask = outside.reshape(1, -1, *([1] * (g.ndim - 2)))
        return np.where(mask, taken + offset, taken)

    return moved


def _shared_rows(prefix: str, width: int) -> list[tuple[str, str, Lanes]]:
    """Data movement and reductions that every type supports."""
    last = width - 1
    return [
        ("sum", f"{prefix}_sum(x)", _keep(np.sum)),
        ("min", f"{prefix}_min(x)", _keep(np.min)),
        ("max", f"{prefix}_max(x)", _keep(np.max)),
        ("product", f"{prefix}_product(x)", _keep(np.prod)),
        ("prefix_inclusive_sum", f"{prefix}_prefix_inclusive_sum(x)", lambda g: np.cumsum(g, axis=1)),
        ("prefix_exclusive_sum", f"{prefix}_prefix_exclusive_sum(x)", _exclusive(np.cumsum, 0)),
        ("prefix_inclusive_product", f"{prefix}_prefix_inclusive_product(x)", lambda g: np.cumprod(g, axis=1)),
        ("prefix_exclusive_product", f"{prefix}_prefix_exclusive_product(x)", _exclusive(np.cumprod, 1)),
        ("broadcast", f"{prefix}_broadcast(x, ushort({last}))", _pick(lambda lanes, n: np.full(n, n - 1))),
        ("broadcast_first", f"{prefix}_broadcast_first(x)", _pick(lambda lanes, n: np.zeros(n, int))),
        ("shuffle", f"{prefix}_shuffle(x, ushort({last} - {_lane(prefix)}))", _pick(lambda lanes, n: n - 1 - lanes)),
        ("shuffle_xor", f"{prefix}_shuffle_xor(x, 3)", _pick(lambda lanes, n: lanes ^ 3)),
        ("shuffle_up", f"{prefix}_shuffle_up(x, 2)", _pick(lambda lanes, n: np.where(lanes < 2, lanes, lanes - 2))),
        (
            "shuffle_down",
            f"{prefix}_shuffle_down(x, 2)",
            _pick(lambda lanes, n: np.where(lanes + 2 < n, lanes + 2, lanes)),
        ),
        ("shuffle_rotate_up", f"{prefix}_shuffle_rotate_up(x, 1)", _pick(lambda lanes, n: (lanes - 1) % n)),
        ("shuffle_rotate_down", f"{prefix}_shuffle_rotate_down(x, 3)", _pick(lambda lanes, n: (lanes + 3) % n)),
        ("fill_up", f"{prefix}_shuffle_and_fill_up(x, y, 1)", _fill(-1, None, 1)),
        ("fill_down", f"{prefix}_shuffle_and_fill_down(x, y, 2)", _fill(2, None, 1)),
        ("fill_up-modulo", f"{prefix}_shuffle_and_fill_up(x, y, 1, {width // 2})", _fill(-1, width // 2, 1)),
        ("fill_down-modulo", f"{prefix}_shuffle_and_fill_down(x, y, 1, {width // 2})", _fill(1, width // 2, 1)),
    ]


def _integer_rows(prefix: str) -> list[tuple[str, str, Lanes]]:
    return [
        ("and", f"{prefix}_and(x)", lambda g: np.bitwise_and.reduce(g, axis=1, keepdims=True)),
        ("or", f"{prefix}_or(x)", lambda g: np.bitwise_or.reduce(g, axis=1, keepdims=True)),
        ("xor", f"{prefix}_xor(x)", lambda g: np.bitwise_xor.reduce(g, axis=1, keepdims=True)),
    ]


def _lane(prefix: str) -> str:
    return "lane" if prefix == "simd" else "quad"


def _values(kind: str) -> Array:
    """Small values: products over 32 lanes stay exact in half."""
    shape = (THREADS, *layout(kind).shape)
    rng = np.random.default_rng(len(kind))
    drawn = np.ones(shape, dtype=np.int64)
    for start in range(0, THREADS, 4):
        drawn[start + int(rng.integers(4))] = 2 if start % 16 == 0 else 1
    drawn[5], drawn[40] = 3, 0
    return drawn.astype(layout(kind).dtype)


def family(prefix: str, kind: str) -> Batch:
    """One kernel with every function of the family on one type."""
    width = 32 if prefix == "simd" else 4
    rows = _shared_rows(prefix, width) + (_integer_rows(prefix) if layout(kind).dtype.kind in "iu" else [])
    checks = [Check(name, expression, kind, _groups(function, width)) for name, expression, function in rows]
    before = f"  {kind} y = x + {kind}({kind.rstrip('234')}(1));"
    return Batch(
        f"{prefix}-{kind}", checks, {"x": (kind, _values(kind))}, parameters=PARAMETERS, before=before, group=THREADS
    )


def votes() -> Batch:
    """Predicates, ballots and the identity of the first active thread."""
    lanes = np.arange(THREADS)
    x = (lanes % 3 == 0).astype(np.int32)
    mask = [int(sum(1 << k for k in range(32) if (32 * g + k) % 3 == 0)) for g in range(2)]
    ballot = np.array(mask, dtype=np.uint64)[lanes // 32]
    quad = np.array([sum(1 << k for k in range(4) if (4 * q + k) % 3 == 0) for q in range(16)], dtype=np.uint64)[
        lanes // 4
    ]
    anyone = np.array([any((4 * q + k) % 3 == 0 for k in range(4)) for q in range(16)])[lanes // 4]
    checks = [
        Check("simd_any", "simd_any(x != 0)", "bool", True),
        Check("simd_any-none", "simd_any(x > 5)", "bool", False),
        Check("simd_all", "simd_all(x < 5)", "bool", True),
        Check("simd_all-some", "simd_all(x != 0)", "bool", False),
        Check("simd_is_first", "simd_is_first()", "bool", lanes % 32 == 0),
        Check("simd_ballot", "ulong((simd_vote::vote_t)simd_ballot(x != 0))", "ulong", ballot),
        Check("simd_ballot-any", "simd_ballot(x != 0).any()", "bool", True),
        Check("simd_ballot-all", "simd_ballot(x != 0).all()", "bool", False),
        Check("simd_vote-all", "simd_ballot(x < 5).all()", "bool", True),
        Check("simd_active_threads_mask", "ulong((simd_vote::vote_t)simd_active_threads_mask())", "ulong", 2**32 - 1),
        Check("quad_any", "quad_any(x != 0)", "bool", anyone),
        Check("quad_all", "quad_all(x < 5)", "bool", True),
        Check("quad_is_first", "quad_is_first()", "bool", lanes % 4 == 0),
        Check("quad_ballot", "uint((quad_vote::vote_t)quad_ballot(x != 0))", "uint", quad),
        Check("quad_active_threads_mask", "uint((quad_vote::vote_t)quad_active_threads_mask())", "uint", 15),
        Check("bool-shuffle", "simd_shuffle_xor(ushort(x), 1)", "ushort", x[lanes ^ 1]),
        Check("lane", "lane", "uint", lanes % 32),
        Check("quad-lane", "quad", "uint", lanes % 4),
    ]
    return Batch("votes", checks, {"x": ("int", x)}, parameters=PARAMETERS, group=THREADS)


def all_batches() -> list[Batch]:
    simd = [family("simd", kind) for kind in (*FLOATING, *INTEGRAL)]
    quad = [family("quad", kind) for kind in ("float", "half", "int", "uint", "ushort", "float4", "uchar")]
    return [*simd, *quad, votes()]
