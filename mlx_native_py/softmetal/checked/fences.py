"""Missing fences: passes of one queue that access the same bytes of memory whose hazards Metal does not track."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from .dispatch import Footprint
from .errors import DispatchName, MissingFence
from .hazards import Done, Locate, conflict
from .intervals import Intervals, Span, within

_KEPT = 64  # passes of a queue
_numbers = itertools.count(1)  # of passes of all queues: a fence of another queue orders nothing of this one


class Fence(Protocol):
    """An object that knows the passes which came before its last update."""

    passes: frozenset[int]


Use = tuple[Literal["update", "wait"], Fence]


@dataclass
class _Ran:
    number: int
    command_buffer: int
    done: list[Done] = field(default_factory=list)


class FenceOrder:
    """The passes of one queue, as far as they touch such memory."""

    def __init__(self) -> None:
        self._passes: list[_Ran] = []
        self._work: object = None
        self._before: set[int] = set()
        self._number = 0

    def begin(self, work: object, fences: Sequence[Use], command_buffer: int) -> None:
        """A pass begins; it may run several times, for other orders of its dispatches."""
        if work is self._work:
            return
        self._work, self._before = work, set()
        self._number = next(_numbers)
        for kind, fence in fences:
            if kind == "wait":
                self._before |= fence.passes & {each.number for each in self._passes}
            else:
                fence.passes = frozenset({*self._before, self._number})
        self._passes.append(_Ran(self._number, command_buffer))
        del self._passes[:-_KEPT]

    def ran(self, name: DispatchName, touched: Footprint, ended: int, locate: Locate) -> list[MissingFence]:
        """Adds what a dispatch or a blit touched of such memory; the CPU had seen some command buffers end."""
        done = Done(name, touched)
        others = [each for each in self._passes[:-1] if each.number not in self._before and each.command_buffer > ended]
        found = [hazard for other in others for one in other.done if (hazard := _between(one, done, locate))]
        self._passes[-1].done.append(done)
        return found

    def event(self) -> None:
        """An event orders what comes after what came before."""
        self._passes.clear()
        self._work = None


def untracked(touched: Footprint, spans: Sequence[Span]) -> Footprint | None:
    """What lies in such memory; None where that is nothing."""
    parts: list[Intervals] = [
        within(part, spans) for part in (touched.reads, touched.writes, touched.atomic_reads, touched.atomic_writes)
    ]
    return Footprint(*parts) if any(part.spans() for part in parts) else None


def _between(one: Done, two: Done, locate: Locate) -> MissingFence | None:
    found = conflict(one.touched, two.touched)
    if found is None:
        return None
    kind, (start, end) = found
    buffer, base = locate(start)
    return MissingFence(kind, one.name, two.name, buffer, (start - base, end - base))
