"""Random structured control flow around simdgroup functions, and what lanes in lockstep make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Values = NDArray[np.uint32]
Mask = NDArray[np.bool_]

THREADS = 72  # two whole simdgroups and a partial one
_LANE = (np.arange(THREADS) % 32).astype(np.uint32)
_GROUP = np.arange(THREADS) // 32


@dataclass(frozen=True)
class Condition:
    """A lane-dependent test."""

    text: str
    holds: Callable[[Values], Any]


@dataclass(frozen=True)
class Statement:
    """`kind` is step, simd, if, loop, continue or break; only the fields it needs are set."""

    kind: str
    text: str = ""
    step: Callable[[Values], Any] | None = None
    reduce: Callable[[Values], Any] | None = None
    condition: Condition | None = None
    then: tuple[Statement, ...] = ()
    otherwise: tuple[Statement, ...] = ()
    trips: int = 0


_CONDITIONS = (
    Condition("lane < 11", lambda v: _LANE < 11),
    Condition("lane % 3 == 1", lambda v: _LANE % 3 == 1),
    Condition("(v & 4) != 0", lambda v: (v & 4) != 0),
    Condition("(v ^ lane) % 5 < 2", lambda v: (v ^ _LANE) % 5 < 2),
    Condition("lane == 7", lambda v: _LANE == 7),
)
_STEPS = (
    Statement("step", "v = v * 3 + lane;", step=lambda v: v * np.uint32(3) + _LANE),
    Statement("step", "v ^= v >> 3;", step=lambda v: v ^ (v >> np.uint32(3))),
    Statement("step", "v += 5;", step=lambda v: v + np.uint32(5)),
)


def _prefix(values: Values) -> Values:
    return np.concatenate([[0], np.cumsum(values & 15)[:-1]]).astype(np.uint32)


_SIMD = (
    Statement("simd", "v += simd_sum(v & 255);", reduce=lambda v: np.sum(v & 255)),
    Statement("simd", "v += simd_max(v & 1023);", reduce=lambda v: np.max(v & 1023)),
    Statement("simd", "v += simd_prefix_exclusive_sum(v & 15);", reduce=_prefix),
    Statement("simd", "v += simd_broadcast_first(v);", reduce=lambda v: v[0]),
    Statement("simd", "v += simd_xor(v);", reduce=np.bitwise_xor.reduce),
    Statement("simd", "v += popcount(uint((simd_vote::vote_t)simd_active_threads_mask()));", reduce=len),
)


@st.composite
def blocks(draw: Any, depth: int = 3, in_loop: bool = False) -> tuple[Statement, ...]:
    """A few statements, nested at most `depth` deep."""
    return tuple(draw(statements(depth, in_loop)) for _ in range(draw(st.integers(1, 3))))


@st.composite
def statements(draw: Any, depth: int, in_loop: bool) -> Statement:
    kinds = (
        ["step", "simd", "simd"] + (["if", "if", "loop"] if depth else []) + (["continue", "break"] if in_loop else [])
    )
    kind = draw(st.sampled_from(kinds))
    if kind in ("step", "simd"):
        chosen: Statement = draw(st.sampled_from(_STEPS if kind == "step" else _SIMD))
        return chosen
    condition = draw(st.sampled_from(_CONDITIONS))
    if kind in ("continue", "break"):
        return Statement(kind, condition=condition)
    inner = draw(blocks(depth - 1, in_loop or kind == "loop"))
    if kind == "loop":
        return Statement("loop", then=inner, trips=draw(st.integers(1, 4)))
    otherwise = draw(blocks(depth - 1, in_loop)) if draw(st.booleans()) else ()
    return Statement("if", condition=condition, then=inner, otherwise=otherwise)


def source(block: tuple[Statement, ...], level: int = 0) -> str:
    """The block as MSL."""
    lines = []
    for s in block:
        if s.kind in ("step", "simd"):
            lines.append(s.text)
        elif s.kind == "loop":
            n = f"n{level}"
            lines.append(f"for (uint {n} = 0; {n} < lane % {s.trips} + 1; {n}++) {{ {source(s.then, level + 1)} }}")
        else:
            assert s.condition
            other = f" else {{ {source(s.otherwise, level + 1)} }}" if s.otherwise else ""
            then = f"{{ {source(s.then, level + 1)} }}{other}" if s.kind == "if" else f"{s.kind};"
            lines.append(f"if ({s.condition.text}) {then}")
    return "\n".join(lines)


class Lockstep:
    """Runs a block with all lanes of a simdgroup in step; lanes that part meet again where the paths do."""

    def __init__(self) -> None:
        self.v: Values = np.arange(THREADS, dtype=np.uint32)

    def run(self, block: tuple[Statement, ...], active: Mask) -> tuple[Mask, Mask, Mask]:
        """The lanes that reach the end, those that continue the loop, those that leave it."""
        continued, broken = np.zeros_like(active), np.zeros_like(active)
        for s in block:
            if s.kind == "step":
                assert s.step
                self.v = np.where(active, s.step(self.v), self.v).astype(np.uint32)
            elif s.kind == "simd":
                self._reduce(s, active)
            elif s.kind == "loop":
                self._loop(s, active)
            else:
                active, left = self._branch(s, active)
                continued, broken = continued | left[0], broken | left[1]
        return active, continued, broken

    def _branch(self, s: Statement, active: Mask) -> tuple[Mask, tuple[Mask, Mask]]:
        assert s.condition
        taken = active & s.condition.holds(self.v)
        none = np.zeros_like(active)
        if s.kind != "if":
            return active & ~taken, (taken, none) if s.kind == "continue" else (none, taken)
        first, second = self.run(s.then, taken), self.run(s.otherwise, active & ~taken)
        return first[0] | second[0], (first[1] | second[1], first[2] | second[2])

    def _loop(self, s: Statement, active: Mask) -> None:
        looping = active
        for trip in range(s.trips):
            looping = looping & (trip < _LANE % s.trips + 1)
            reached, continued, _ = self.run(s.then, looping)
            looping = reached | continued

    def _reduce(self, s: Statement, active: Mask) -> None:
        assert s.reduce
        for group in range(int(_GROUP[-1]) + 1):
            lanes = active & (_GROUP == group)
            if lanes.any():
                before = self.v[lanes]
                self.v[lanes] = (before + np.asarray(s.reduce(before)).astype(np.uint32)).astype(np.uint32)


def expected(block: tuple[Statement, ...]) -> Values:
    """The value of every thread at the end."""
    machine = Lockstep()
    with np.errstate(over="ignore"):
        machine.run(block, np.ones(THREADS, dtype=np.bool_))
    return machine.v
