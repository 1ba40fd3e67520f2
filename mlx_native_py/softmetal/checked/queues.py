"""Missing synchronisation between queues that access the same bytes: neither an event nor a CPU wait."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol
from weakref import WeakSet

from .dispatch import Footprint
from .errors import DispatchName, MissingFence, UnorderedQueues
from .fences import FenceOrder, Use
from .hazards import Done, Locate, conflict
from .intervals import EMPTY, Intervals

Clock = dict[int, int]
"""Of each queue, by its number, how many of its stretches came before."""
_KEPT = 64  # stretches of a queue: on Metal no more command buffers are in flight unless a program asks for it


class Timed(Protocol):
    """An object that carries a vector clock: an event."""

    clock: Clock


def _join(clock: Clock, other: Clock) -> None:
    for queue, number in other.copy().items():
        clock[queue] = max(clock.get(queue, 0), number)


def _union(parts: Sequence[Intervals]) -> Intervals:
    result = EMPTY
    for part in parts:
        result |= part
    return result


@dataclass
class _Stretch:
    """The work of a queue between two events."""

    queue: int
    number: int
    done: list[Done] = field(default_factory=list)

    @cached_property
    def written(self) -> Intervals:
        return _union([part for each in self.done for part in (each.touched.writes, each.touched.atomic_writes)])

    @cached_property
    def touched(self) -> Intervals:
        reads = [part for each in self.done for part in (each.touched.reads, each.touched.atomic_reads)]
        return _union(reads) | self.written

    def meets(self, other: _Stretch) -> bool:
        return bool(self.written.overlap(other.touched) or self.touched.overlap(other.written))


class Timeline:
    """The work of a device's queues, and what the CPU has observed of it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # reentrant, because a finaliser may look at work anywhere
        self._cpu: Clock = {}
        self._ends: dict[int, Clock] = {}  # of each queue
        self._ran: dict[int, list[_Stretch]] = {}
        self._open: WeakSet[History] = WeakSet()
        self._fences: dict[int, FenceOrder] = {}

    def commit(self, queue: int, name: str) -> History:
        """A command buffer begins, after everything that the CPU knows to have ended."""
        with self.lock:
            history = History(self, queue, name, dict(self._cpu), self._fences.setdefault(queue, FenceOrder()))
            self._open.add(history)
            return history

    def saw(self, clock: Clock) -> None:
        """The CPU knows that what the clock tells of has ended."""
        with self.lock:
            _join(self._cpu, clock)

    def signal(self, event: Timed) -> None:
        """By the CPU."""
        with self.lock:
            _join(event.clock, self._cpu)

    def follow(self, queue: int, clock: Clock) -> None:
        """Puts what is next on a queue after what was on it; the lock is held."""
        _join(clock, self._ends.get(queue, {}))

    def keep(self, queue: int, clock: Clock) -> None:
        """What is next on a queue is after all that the clock tells of; the lock is held."""
        _join(self._ends.setdefault(queue, {}), clock)

    def add(self, stretch: _Stretch, clock: Clock) -> list[_Stretch]:
        """Keeps a stretch that has run; answers those that it meets and that came neither before nor after."""
        with self.lock:
            self._prune()
            met = [
                each
                for queue, ran in self._ran.items()
                for each in ran
                if queue != stretch.queue and each.number > clock.get(queue, 0) and stretch.meets(each)
            ]
            own = self._ran.setdefault(stretch.queue, [])
            own.append(stretch)
            del own[:-_KEPT]
            self.keep(stretch.queue, clock)
            return met

    def close(self, history: History) -> None:
        with self.lock:
            self._open.discard(history)

    def _prune(self) -> None:
        """Forgets what everything that may still come is after."""
        clocks = [self._cpu, *(each.clock for each in self._open)]
        for queue, ran in self._ran.items():
            least = min(clock.get(queue, 0) for clock in clocks)
            ran[:] = [each for each in ran if each.number > least]


class History:
    """One command buffer: its work since the last event, and what happened before it."""

    def __init__(self, timeline: Timeline, queue: int, name: str, clock: Clock, fences: FenceOrder) -> None:
        self._timeline = timeline
        self._queue = queue
        self._name = name
        self.clock = clock
        self.fences = fences
        self._ended = clock.get(queue, 0)  # what of the queue the CPU had seen end
        self._stretch: _Stretch | None = None

    def ran(self, index: int, kernel: str, label: str, touched: Footprint) -> None:
        """A dispatch or a blit has run."""
        if self._stretch is None:
            self._begin()
        assert self._stretch is not None
        self._stretch.done.append(Done(DispatchName(index, kernel, label, f" of {self._name}"), touched))

    def begin(self, work: object, fences: Sequence[Use]) -> None:
        """A pass begins."""
        if self._stretch is None:
            self._begin()
        self.fences.begin(work, fences, self.clock[self._queue])

    def ran_untracked(self, index: int, kernel: str, touched: Footprint, locate: Locate) -> list[MissingFence]:
        """What a dispatch or a blit of the pass touched of memory that Metal does not track."""
        return self.fences.ran(DispatchName(index, kernel, "", f" of {self._name}"), touched, self._ended, locate)

    def _begin(self) -> None:
        with self._timeline.lock:
            self._timeline.follow(self._queue, self.clock)
            number = self.clock.get(self._queue, 0) + 1
            self.clock[self._queue] = number
            self._stretch = _Stretch(self._queue, number)

    def settle(self, locate: Locate) -> list[UnorderedQueues]:
        """What ran is known to others from now on; answers what was not in order with theirs."""
        stretch, self._stretch = self._stretch, None
        if stretch is None:
            return []
        found = []
        for other in self._timeline.add(stretch, self.clock):
            pairs = ((one, two) for one in other.done for two in stretch.done)
            found += [hazard for one, two in pairs if (hazard := _between(one, two, locate))]
        return found

    def signal(self, event: Timed) -> None:
        with self._timeline.lock:
            self._timeline.follow(self._queue, self.clock)
            _join(event.clock, self.clock)

    def wait(self, event: Timed) -> None:
        """The event has come."""
        self.fences.event()
        with self._timeline.lock:
            _join(self.clock, event.clock)
            self._timeline.keep(self._queue, self.clock)

    def end(self) -> None:
        """Nothing more comes."""
        with self._timeline.lock:
            self._timeline.follow(self._queue, self.clock)
        self._timeline.close(self)

    def seen(self) -> None:
        """The CPU knows that the command buffer has ended."""
        self._timeline.saw(self.clock)


def _between(one: Done, two: Done, locate: Locate) -> UnorderedQueues | None:
    found = conflict(one.touched, two.touched)
    if found is None:
        return None
    kind, (start, end) = found
    buffer, base = locate(start)
    return UnorderedQueues(kind, one.name, two.name, buffer, (start - base, end - base))
