"""The hazard tracker: which bytes the dispatches since the last barrier touch, and why the next one must wait.

Ranges are half-open and exact. Of each memory a tracker knows what was read and what was written since the last
barrier: as one extent where that is exact, else as an extent and a sorted set of intervals, so that a dispatch costs
the same whether ten ranges are live or a hundred thousand. What was recorded before the last barrier is told apart by
its epoch, an object that each barrier replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from ..compat import TrackerSpellings
from .intervals import IntervalSet
from .ranges import BufferRange, HasSpan, Hazard, HazardKind, Memory, MemRangeRole, Span, shared_bytes

__all__ = [
    "BufferRange",
    "Conflict",
    "Extent",
    "MemRangeRole",
    "MemRanges",
    "MemoryUse",
    "Touched",
    "UNUSED",
    "touched",
    "widened",
]

Spans = Sequence[Span]


class Touched(Protocol):
    """Bytes from `start` to `end`; `intervals` tells the gaps, once there are any. A buffer is one without gaps."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def intervals(self) -> IntervalSet | None: ...


class Extent:
    """The bytes of one memory from the first that was touched to the last."""

    __slots__ = ("end", "intervals", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.intervals: IntervalSet | None = None


def widened(old: Touched, new: Touched) -> Touched:
    """What `old` and `new` touch together; `old` itself where it is an extent with room for more."""
    start, end = new.start, new.end
    if old.start <= start and end <= old.end and old.intervals is None:
        return old
    extent = old if isinstance(old, Extent) else Extent(old.start, old.end)
    if extent.intervals is None and (start > extent.end or end < extent.start):
        extent.intervals = IntervalSet()
        extent.intervals.add(extent.start, extent.end)
    if extent.intervals is not None:
        extent.intervals.add(start, end)
    if start < extent.start:
        extent.start = start
    if end > extent.end:
        extent.end = end
    return extent


class MemoryUse:
    """What a tracker knows of one memory; a part counts where its epoch is the tracker's own."""

    __slots__ = ("free", "read", "read_epoch", "tracker", "write_epoch", "written")

    read: Touched
    written: Touched

    def __init__(self, tracker: MemRanges | None) -> None:
        self.tracker = tracker
        self.write_epoch: object = None
        self.read_epoch: object = None
        self.free: list[None] = []
        """Has an item while no tracker uses it; whoever takes that out owns it, also among several threads."""


_NOTHING = Extent(0, 0)
UNUSED = MemoryUse(None)
"""Belongs to no tracker."""


class Conflict:
    """That a dispatch must wait for earlier ones; `hazard` looks up why when it is asked."""

    __slots__ = ("_by", "_first", "_last", "_log", "_step")

    def __init__(self, log: Sequence[Any], first: int, last: int, step: tuple[Spans, Spans], by: Any) -> None:
        self._log = log
        self._first, self._last = first, last
        self._step = step
        self._by = by

    @property
    def hazard(self) -> Hazard:
        """With both dispatches as they were named."""
        index, hazard = self.look_up()
        return Hazard(hazard.kind, self._log[index][0], self._by, hazard.start, hazard.end, hazard.allocation)

    def look_up(self) -> tuple[int, Hazard]:
        """The latest dispatch in the way of the first range that has one, and the hazard; reads are looked at first."""
        reads, writes = self._step
        for span, is_write in [*((span, False) for span in reads), *((span, True) for span in writes)]:
            for index in range(self._last - 1, self._first - 1, -1):
                its_reads, its_writes = touched(self._log[index])
                kind = HazardKind.WAW if is_write else HazardKind.RAW
                shared = next(filter(None, (shared_bytes(span, other) for other in its_writes)), None)
                if shared is None and is_write:
                    kind = HazardKind.WAR
                    shared = next(filter(None, (shared_bytes(span, other) for other in its_reads)), None)
                if shared is not None:
                    return index, Hazard(kind, index, self._last, *shared, span[0])
        raise LookupError("the memories of this conflict are no longer aliases")

    def __repr__(self) -> str:
        return f"Conflict({self.hazard})"


def touched(entry: Any) -> tuple[Spans, Spans]:
    """What an entry of a log reads and writes: `(by, reads, writes)`, or what its first part makes of it."""
    return entry[0].touched(entry) if type(entry[1]) is int else (entry[1], entry[2])


def _spans(items: Iterable[HasSpan]) -> list[Span]:
    """Without empty ranges, which touch nothing."""
    return [span for item in items if (span := item.span)[1] < span[2]]


class MemRanges(TrackerSpellings):
    """The tracker: every dispatch since the last barrier, checked against the next.

    `reads` and `writes` are buffers, views or `BufferRange`s; `by` is any object that names the dispatch.

    >>> memory = Memory(0x10000, 128, "x", known=False)
    >>> whole = BufferRange(memory, 0x10000, 0x10080, MemRangeRole.Dst)
    >>> ranges = MemRanges()
    >>> ranges.check_and_record([], [whole], by="fill"), ranges.check_and_record([whole], [], by="sum")
    (True, False)
    >>> print(ranges.explain())
    RAW: sum reads bytes 0..128 of x (128 bytes at 0x10000), which fill writes
    """

    __slots__ = ("_checks", "_conflict", "_forced", "barriers", "epoch", "log", "since", "uses")

    def __init__(self) -> None:
        self.epoch: object = object()
        self.uses: dict[Memory, MemoryUse] = {}
        self.log: list[Any] = []
        """An entry for each dispatch, in order."""
        self.since = 0
        """Where in the log the dispatches since the last barrier begin."""
        self.barriers: list[tuple[int, int | None]] = []
        """The entry of the log that each stands before, and the first that it could be about; None if by hand."""
        self._checks = self._forced = 0
        self._conflict: tuple[int, int, tuple[Spans, Spans], Any] | None = None
        """The last conflict that `find` or `track` saw: its entries of the log, and what has to wait."""

    def __repr__(self) -> str:
        return f"<MemRanges of {len(self)} ranges since the last barrier, {self._forced} barriers forced>"

    def __len__(self) -> int:
        return sum(len(reads) + len(writes) for reads, writes in map(touched, self.log[self.since :]))

    def checks(self) -> int:
        """How often a dispatch was checked; never reset."""
        return self._checks + len(self.log)

    def barriers_forced(self) -> int:
        """How many of the checks found a conflict; never reset."""
        return self._forced + sum(since is not None for _, since in self.barriers)

    def explain(self) -> Hazard | None:
        """Why the last dispatch that failed its check did."""
        if self._conflict is not None:
            return Conflict(self.log, *self._conflict).hazard
        forced = next(((at, since) for at, since in reversed(self.barriers) if since is not None), None)
        if forced is None or forced[0] >= len(self.log):
            return None
        at, since = forced
        return Conflict(self.log, since, at, touched(self.log[at]), None).hazard

    def reset(self) -> None:
        """Forgets all ranges, as a barrier allows."""
        self.epoch = object()
        self.since = len(self.log)

    def force(self) -> object:
        """Forgets all ranges for a barrier before the dispatch that comes next; the epoch that begins with it."""
        at = len(self.log)
        self.epoch = epoch = (at, self.since)
        self.barriers.append(epoch)
        self.since, self._conflict = at, None
        return epoch

    def force_by_hand(self) -> None:
        """The same for a barrier that somebody asked for."""
        self.barriers.append((len(self.log), None))
        self.reset()

    def close(self) -> None:
        """Forgets all ranges and all memory, for a command buffer that is done with."""
        self._checks += len(self.log)
        if self.barriers:
            self._forced = self.barriers_forced()
        self.log, self.barriers, self.since, self.epoch, self._conflict = [], [], 0, object(), None
        for use in self.uses.values():
            use.tracker = None
            use.written = use.read = _NOTHING
            use.free.append(None)
        self.uses.clear()

    def push(self, given: BufferRange, by: Any = None) -> None:
        """Records one range without a check."""
        is_write = given.role is MemRangeRole.Dst
        self.add_dispatch(() if is_write else (given,), (given,) if is_write else (), by)

    def add_dispatch(self, reads: Iterable[HasSpan], writes: Iterable[HasSpan], by: Any = None) -> None:
        """Records a dispatch without a check."""
        self._checks -= 1
        self.record(_spans(reads), _spans(writes), by)

    def check_dispatch(self, reads: Iterable[HasSpan], writes: Iterable[HasSpan], by: Any = None) -> bool:
        """Whether a dispatch may run beside all that are recorded; it is not held against itself."""
        return self.find(_spans(reads), _spans(writes), by) is None

    def check_and_record(self, reads: Iterable[HasSpan], writes: Iterable[HasSpan], by: Any = None) -> bool:
        """Checks, and records if that went well; otherwise place a barrier, `reset()` and `add_dispatch()`."""
        read, written = _spans(reads), _spans(writes)
        if self.find(read, written, by) is not None:
            return False
        self._checks -= 1
        self.record(read, written, by)
        return True

    def track(self, reads: Spans, writes: Spans, by: Any = None) -> Conflict | None:
        """Checks spans (none empty), forgets everything on a conflict, and records.

        A conflict wants a barrier before the dispatch. The sequences are kept, so they must not change afterwards.
        """
        conflict = self._conflicting(reads, writes, by) if self.meets(reads, writes) else None
        if conflict is not None:
            self.reset()
        self.record(reads, writes, by)
        return conflict

    def find(self, reads: Spans, writes: Spans, by: Any = None) -> Conflict | None:
        """The check alone, on spans of which none is empty."""
        self._checks += 1
        return self._conflicting(reads, writes, by) if self.meets(reads, writes) else None

    def meets(self, reads: Spans, writes: Spans) -> bool:
        """Whether a dispatch that touches these would have to wait."""
        get, epoch = self.uses.get, self.epoch
        for memory, start, end in reads:
            use = get(memory)
            if use is not None and use.write_epoch is epoch and _meets(use.written, start, end):
                return True
        for memory, start, end in writes:
            use = get(memory)
            if use is not None:
                if use.write_epoch is epoch and _meets(use.written, start, end):
                    return True
                if use.read_epoch is epoch and _meets(use.read, start, end):
                    return True
        return Memory.any_aliases and self._meets_aliases(reads, writes)

    def _meets_aliases(self, reads: Spans, writes: Spans) -> bool:
        """The same for other memories over the same bytes."""
        for span, is_write in [*((span, False) for span in reads), *((span, True) for span in writes)]:
            for alias in span[0].aliases:
                use = self.uses.get(other) if (other := alias()) is not None else None
                if use is None:
                    continue
                if use.write_epoch is self.epoch and _meets(use.written, span[1], span[2]):
                    return True
                if is_write and use.read_epoch is self.epoch and _meets(use.read, span[1], span[2]):
                    return True
        return False

    def record(self, reads: Spans, writes: Spans, by: Any = None) -> None:
        """The recording alone, of spans of which none is empty."""
        self.log.append((by, reads, writes))
        self.note(reads, writes)

    def note(self, reads: Spans, writes: Spans) -> None:
        """Recording without an entry in the log."""
        epoch = self.epoch
        for memory, start, end in reads:
            use, extent = self.use_of(memory), Extent(start, end)
            use.read = widened(use.read, extent) if use.read_epoch is epoch else extent
            use.read_epoch = epoch
        for memory, start, end in writes:
            use, extent = self.use_of(memory), Extent(start, end)
            use.written = widened(use.written, extent) if use.write_epoch is epoch else extent
            use.write_epoch = epoch

    def take_over(self, use: MemoryUse) -> MemoryUse:
        """A use of a memory that is new here: the one that another tracker is done with, or a fresh one."""
        try:
            use.free.pop()
        except IndexError:
            return MemoryUse(self)
        use.tracker = self
        return use

    def use_of(self, memory: Memory) -> MemoryUse:
        """What is known of a memory here."""
        use = self.uses.get(memory)
        if use is None:
            use = self.uses[memory] = MemoryUse(self)
        return use

    def _conflicting(self, reads: Spans, writes: Spans, by: Any) -> Conflict:
        self._forced += 1
        self._conflict = self.since, len(self.log), (reads, writes), by
        return Conflict(self.log, *self._conflict)


def _meets(touched: Touched, start: int, end: int) -> bool:
    """Whether any byte of a range, which is not empty, is touched."""
    if start >= touched.end or touched.start >= end:
        return False
    return touched.intervals is None or touched.intervals.meets(start, end)
