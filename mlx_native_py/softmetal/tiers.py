"""When a kernel moves to the lanes engine: at once where it is asked for, else when it has run long enough to pay."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Literal, Protocol

from .background import later
from .engines.lanes.model import Declined
from .program import Size, Specialised

HEAT_NS = 30_000_000  # of run time; about what the compilation costs
MOST_SHAPES = 32  # of one kernel; each is a shared object that stays loaded
TRIALS = 5  # launches of each kind before the slower one is given up
MARGIN = 1.05  # lanes stay unless they are slower by more than this
CLEAR = 1.25  # from here on other processes need not try again; less may be the noise of a busy machine
State = Literal["cold", "building", "trial", "settled", "declined"]


class Builder(Protocol):
    """Makes lanes builds; see msl/lanes.py."""

    def stored(self, shape: Size) -> Specialised | None: ...
    def make(self, shape: Size) -> Specialised: ...
    def verdict(self, shape: Size) -> str | None: ...
    def put_verdict(self, shape: Size, reason: str) -> None: ...


@dataclass
class _Shape:
    """What is known about one shape of threadgroup."""

    state: State = "cold"
    heat_ns: int = 0
    code: Specialised | None = None
    reason: str = ""
    on_lanes: bool = False
    listens: bool = True  # whether times of launches still decide something
    times: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})  # ns per thread, by on_lanes


def _reason(failure: Exception) -> str:
    return str(failure) if isinstance(failure, Declined) else f"{type(failure).__name__}: {failure}"


class LanesTiers:
    """The choice for one kernel. A launch asks `choose` and tells `ran`.

    `at_once` compiles at the first launch of a shape, and never goes back. Otherwise no launch waits for a compiler: a
    build in the disk cache is taken at once, a missing one is made in the background when the shape is hot, and a few
    launches of both kinds decide.
    """

    def __init__(self, builder: Builder, engine: str, *, at_once: bool) -> None:
        self._builder = builder
        self._engine = engine  # what the kernel runs on without lanes
        self._at_once = at_once
        self._shapes: dict[Size, _Shape] = {}
        self._lock = threading.Lock()

    def choose(self, shape: Size) -> Specialised | None:
        known = self._shapes.get(shape)
        if known is None:
            known = self._meet(shape)
        if known.state == "trial" and len(known.times[True]) > len(known.times[False]):
            return None  # turn by turn, so that both see the same work
        return known.code if known.on_lanes else None

    def listens(self, shape: Size) -> bool:
        return self._shapes[shape].listens

    def ran(self, shape: Size, code: Specialised | None, threads: int, nanoseconds: int) -> None:
        known = self._shapes[shape]
        with self._lock:
            if known.state == "cold":
                known.heat_ns += nanoseconds
                if known.heat_ns >= HEAT_NS:
                    known.state, known.listens = "building", False
                    later(lambda: self._build(shape, known))
            elif known.state == "trial":
                known.times[code is not None].append(nanoseconds / threads)
                if min(map(len, known.times.values())) >= TRIALS:
                    self._settle(shape, known)

    def settled(self) -> bool:
        return all(known.state in ("settled", "declined") for known in list(self._shapes.values()))

    def declined(self) -> dict[str, str]:
        return {f"lanes {shape}": known.reason for shape, known in list(self._shapes.items()) if known.reason}

    def _meet(self, shape: Size) -> _Shape:
        """The first launch of a shape."""
        with self._lock:
            if shape in self._shapes:  # another thread was faster
                return self._shapes[shape]
            known = _Shape()
            if sum(other.code is not None for other in self._shapes.values()) >= MOST_SHAPES:
                self._decline(known, f"{MOST_SHAPES} shapes of this kernel are compiled already")
            elif self._at_once:
                self._build(shape, known)
            else:
                self._look(shape, known)
            self._shapes[shape] = known
            return known

    def _look(self, shape: Size, known: _Shape) -> None:
        """Takes what the disk cache has."""
        try:
            verdict = self._builder.verdict(shape)
            if verdict:
                raise Declined(verdict)
            code = self._builder.stored(shape)
        except Exception as failure:
            self._decline(known, _reason(failure))
            return
        if code is not None:
            self._take(known, code, "trial" if verdict is None else "settled")

    def _build(self, shape: Size, known: _Shape) -> None:
        try:
            code = (self._builder.stored(shape) if self._at_once else None) or self._builder.make(shape)
        except Exception as failure:  # whatever goes wrong, the kernel runs as before
            self._decline(known, _reason(failure))
        else:
            self._take(known, code, "settled" if self._at_once else "trial")

    @staticmethod
    def _take(known: _Shape, code: Specialised, state: State) -> None:
        known.code = code
        known.on_lanes = True
        known.listens = state == "trial"
        known.state = state

    @staticmethod
    def _decline(known: _Shape, reason: str) -> None:
        known.reason = reason
        known.on_lanes = known.listens = False
        known.state = "declined"

    def _settle(self, shape: Size, known: _Shape) -> None:
        lanes, other = min(known.times[True]), min(known.times[False])
        known.on_lanes = lanes <= other * MARGIN
        if not known.on_lanes:
            known.reason = f"slower than {self._engine}: {lanes:.3g} ns for each thread, against {other:.3g}"
        known.state, known.listens = "settled", False
        if known.on_lanes or lanes > other * CLEAR:
            later(lambda: self._builder.put_verdict(shape, known.reason))
