"""The hazard tracker: what the dispatches since the last barrier access, and whether the next one must wait.

Ranges are half-open and exact. For each memory the tracker keeps what was read and written since the last barrier: one
extent while that is exact, otherwise an extent and an interval set, so that a check costs the same for ten live ranges
as for a hundred thousand. Each barrier starts a new epoch, an object that marks which records are current.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from ..compat import TrackerSpellings
from .intervals import IntervalSet
from .ranges import BufferRange, HasSpan, Hazard, HazardKind, Memory, MemRangeRole, Span, shared_bytes

__all__ = [
    "BufferRange",
    "ByteRange",
    "Conflict",
    "Extent",
    "MemRangeRole",
    "MemRanges",
    "MemoryUse",
    "UNUSED",
    "touched",
    "widened",
]

Spans = Sequence[Span]


class ByteRange(Protocol):
    """Bytes from `start` to `end`, with `intervals` if there are gaps. A buffer has none."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def intervals(self) -> IntervalSet | None: ...


class Extent:
    """The bytes of one memory from the first to the last that were accessed."""

    __slots__ = ("end", "intervals", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.intervals: IntervalSet | None = None


def widened(old: ByteRange, new: ByteRange) -> ByteRange:
    """The union of `old` and `new`; reuses `old` if it is an `Extent`."""
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
    """The accesses to one memory that a tracker knows; a part is current if its epoch is the tracker's."""

    tracker: MemRanges | None = None
    read: ByteRange
    written: ByteRange
    read_epoch: object = None
    write_epoch: object = None


_NOTHING = Extent(0, 0)
UNUSED = MemoryUse()
"""Belongs to no tracker."""


class Conflict:
    """A dispatch that must wait for earlier ones; `hazard` finds the reason on demand."""

    __slots__ = ("_by", "_first", "_last", "_log", "_step")

    def __init__(self, log: Sequence[Any], first: int, last: int, step: tuple[Spans, Spans], by: Any) -> None:
        self._log = log
        self._first, self._last = first, last
        self._step = step
        self._by = by

    @property
    def hazard(self) -> Hazard:
        """The hazard, with both dispatches as they were named."""
        index, hazard = self.look_up()
        return Hazard(hazard.kind, self._log[index][0], self._by, hazard.start, hazard.end, hazard.allocation)

    def look_up(self) -> tuple[int, Hazard]:
        """The log index of the latest conflicting dispatch, and the hazard; reads are checked before writes."""
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
    """The spans that a log entry reads and writes: `(by, reads, writes)`, or computed by its first item."""
    return entry[0].touched(entry) if type(entry[1]) is int else (entry[1], entry[2])


def _spans(items: Iterable[HasSpan]) -> list[Span]:
    """The spans of the items, without empty ones."""
    return [span for item in items if (span := item.span)[1] < span[2]]


class MemRanges(TrackerSpellings):
    """The tracker: checks each dispatch against all dispatches since the last barrier.

    `reads` and `writes` are buffers, views or `BufferRange`s; `by` is any object that identifies the dispatch.

    >>> memory = Memory(0x10000, 128, "x", known=False)
    >>> whole = BufferRange(memory, 0x10000, 0x10080, MemRangeRole.Dst)
    >>> ranges = MemRanges()
    >>> ranges.check_and_record([], [whole], by="fill"), ranges.check_and_record([whole], [], by="sum")
    (True, False)
    >>> print(ranges.explain())
    RAW: sum reads bytes 0..128 of x (128 bytes at 0x10000), which fill writes
    """

    __slots__ = ("_checks", "_conflict", "_ended", "_forced", "barriers", "epoch", "log", "since", "uses")

    def __init__(self) -> None:
        self.epoch: object = object()
        self.uses: dict[Memory, MemoryUse] = {}
        self.log: list[Any] = []
        """One entry per dispatch, in order."""
        self.since = 0
        """The log index of the first dispatch after the last barrier."""
        self.barriers: list[tuple[int, int | None]] = []
        """For each barrier, the log index that it precedes and the first that can have caused it; None if placed by the
        caller."""
        self._checks = self._forced = 0  # of calls of this class, without those of the log
        self._ended = (0, 0, 0)
        """The sums of earlier command buffers."""
        self._conflict: tuple[int, int, tuple[Spans, Spans], Any] | None = None
        """The last conflict: its range of the log, the accesses and the dispatch."""

    def __repr__(self) -> str:
        return f"<MemRanges of {len(self)} ranges since the last barrier, {self.barriers_forced()} barriers forced>"

    def __len__(self) -> int:
        return sum(len(reads) + len(writes) for reads, writes in map(touched, self.log[self.since :]))

    def checks(self) -> int:
        """How many dispatches were checked; never reset."""
        return self._checks + self._ended[0] + len(self.log)

    def barriers_forced(self) -> int:
        """How many checks found a conflict; never reset."""
        return self._forced + self.sums()[2]

    def sums(self) -> tuple[int, int, int]:
        """How many log entries, barriers and hazard barriers there were; never reset."""
        entries, barriers, forced = self._ended
        if self.barriers:
            barriers += len(self.barriers)
            forced += sum(since is not None for _, since in self.barriers)
        return entries + len(self.log), barriers, forced

    def explain(self) -> Hazard | None:
        """The hazard of the last dispatch that failed its check."""
        if self._conflict is not None:
            return Conflict(self.log, *self._conflict).hazard
        forced = next(((at, since) for at, since in reversed(self.barriers) if since is not None), None)
        if forced is None or forced[0] >= len(self.log):
            return None
        at, since = forced
        return Conflict(self.log, since, at, touched(self.log[at]), None).hazard

    def reset(self) -> None:
        """Forgets all ranges, after a barrier."""
        self.epoch = object()
        self.since = len(self.log)

    def force(self) -> object:
        """Records a hazard barrier before the next dispatch; returns the new epoch."""
        at = len(self.log)
        self.epoch = epoch = (at, self.since)
        self.barriers.append(epoch)
        self.since, self._conflict = at, None
        return epoch

    def force_by_hand(self) -> None:
        """Records a barrier that the caller placed."""
        self.barriers.append((len(self.log), None))
        self.reset()

    def close(self) -> None:
        """Forgets everything, at the end of a command buffer."""
        self._ended = self.sums()
        self.log, self.barriers, self.since, self.epoch, self._conflict = [], [], 0, object(), None
        for use in self.uses.values():
            use.tracker = None
            use.written = use.read = _NOTHING
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
        """Whether a dispatch may run concurrently with all recorded ones; it does not conflict with itself."""
        return self.find(_spans(reads), _spans(writes), by) is None

    def check_and_record(self, reads: Iterable[HasSpan], writes: Iterable[HasSpan], by: Any = None) -> bool:
        """Checks a dispatch, and records it if it does not conflict; otherwise place a barrier, `reset()` and
        `add_dispatch()`."""
        read, written = _spans(reads), _spans(writes)
        if self.find(read, written, by) is not None:
            return False
        self._checks -= 1
        self.record(read, written, by)
        return True

    def track(self, reads: Spans, writes: Spans, by: Any = None) -> Conflict | None:
        """Checks non-empty spans, starts over on a conflict, and records.

        A returned conflict means that a barrier is needed before the dispatch. The sequences are kept and must not
        change.
        """
        conflict = self._conflicting(reads, writes, by) if self.meets(reads, writes) else None
        if conflict is not None:
            self.reset()
        self.record(reads, writes, by)
        return conflict

    def find(self, reads: Spans, writes: Spans, by: Any = None) -> Conflict | None:
        """Checks non-empty spans without recording them."""
        self._checks += 1
        return self._conflicting(reads, writes, by) if self.meets(reads, writes) else None

    def meets(self, reads: Spans, writes: Spans) -> bool:
        """Whether a dispatch with these accesses would have to wait."""
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
        """The same check for other memories that share bytes."""
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
        """Records non-empty spans without a check."""
        self.log.append((by, reads, writes))
        self.note(reads, writes)

    def note(self, reads: Spans, writes: Spans) -> None:
        """Records accesses without a log entry."""
        epoch = self.epoch
        for memory, start, end in reads:
            use, extent = self.use_of(memory), Extent(start, end)
            use.read = widened(use.read, extent) if use.read_epoch is epoch else extent
            use.read_epoch = epoch
        for memory, start, end in writes:
            use, extent = self.use_of(memory), Extent(start, end)
            use.written = widened(use.written, extent) if use.write_epoch is epoch else extent
            use.write_epoch = epoch

    def use_of(self, memory: Memory) -> MemoryUse:
        """The `MemoryUse` of a memory in this tracker."""
        use = self.uses.get(memory)
        if use is None:
            use = MemoryUse()
            use.tracker, self.uses[memory] = self, use
        return use

    def _conflicting(self, reads: Spans, writes: Spans, by: Any) -> Conflict:
        self._forced += 1
        self._conflict = self.since, len(self.log), (reads, writes), by
        return Conflict(self.log, *self._conflict)


def _meets(touched: ByteRange, start: int, end: int) -> bool:
    """Whether any byte of a non-empty range is covered."""
    if start >= touched.end or touched.start >= end:
        return False
    return touched.intervals is None or touched.intervals.meets(start, end)
