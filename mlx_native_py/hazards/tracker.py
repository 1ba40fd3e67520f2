"""Which bytes the dispatches since the last barrier touch, and why the next one must wait.

Ranges are half-open and exact. Per memory, a hull of what was read and one of what was written decide most questions,
and sorted spans the rest, so a dispatch costs the same whether ten ranges are live or a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .ranges import BufferRange, Conflict, HasSpan, Hazard, Memory, MemRangeRole, Span, Step
from .spans import Spans

__all__ = ["BufferRange", "MemRangeRole", "MemRanges"]


class _Hull:
    """The bytes touched of one memory, from the first to the last; `spans` tells the gaps, once there are any."""

    __slots__ = ("low", "high", "spans")

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self.spans: Spans | None = None

    def meets(self, start: int, end: int) -> bool:
        """Whether any byte of a range, which is not empty, is touched."""
        return start < self.high and self.low < end and (self.spans is None or self.spans.meets(start, end))

    def take_in(self, start: int, end: int) -> None:
        """Adds a range."""
        low, high = self.low, self.high
        if self.spans is not None:
            self.spans.add(start, end)
        elif start > high or end < low:
            self.spans = Spans()
            self.spans.add(low, high)
            self.spans.add(start, end)
        if start < low:
            self.low = start
        if end > high:
            self.high = end


_Hulls = dict[Memory, _Hull]


def _hits_aliases(hulls: _Hulls, spans: Sequence[Span]) -> bool:
    """Whether any of the spans meets what is in the hulls of other memories over the same bytes."""
    return any(
        (other := alias()) is not None and (hull := hulls.get(other)) is not None and hull.meets(start, end)
        for memory, start, end in spans
        for alias in memory.aliases
    )


def _spans(items: Iterable[HasSpan]) -> list[Span]:
    """Without empty ranges, which touch nothing."""
    return [span for item in items if (span := item.span)[1] < span[2]]


class MemRanges:
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

    __slots__ = ("_read", "_written", "_log", "_checks", "_forced", "_conflict")

    def __init__(self) -> None:
        self._read: _Hulls = {}
        self._written: _Hulls = {}
        self._log: list[Step] = []
        self._checks = self._forced = 0
        self._conflict: Conflict | None = None

    def __len__(self) -> int:
        return sum(len(reads) + len(writes) for _, reads, writes in self._log)

    def len(self) -> int:
        """How many ranges are live; one that is recorded twice counts twice, an empty one not at all."""
        return self.__len__()

    def is_empty(self) -> bool:
        """Whether nothing is live."""
        return not (self._read or self._written)

    def checks(self) -> int:
        """How often a dispatch was checked; never reset."""
        return self._checks

    def barriers_forced(self) -> int:
        """How many of the checks found a conflict; never reset."""
        return self._forced

    def explain(self) -> Hazard | None:
        """Why the last dispatch that failed its check did."""
        return None if self._conflict is None else self._conflict.hazard

    def reset(self) -> None:
        """Forgets all ranges, as a barrier allows."""
        if self._log:
            self._read = {}
            self._written = {}
            self._log = []

    def push(self, given: BufferRange, by: Any = None) -> None:
        """Records one range without a check."""
        is_write = given.role is MemRangeRole.Dst
        self.add_dispatch(() if is_write else (given,), (given,) if is_write else (), by)

    def add_dispatch(self, reads: Iterable[HasSpan], writes: Iterable[HasSpan], by: Any = None) -> None:
        """Records a dispatch without a check."""
        self.record(_spans(reads), _spans(writes), by)

    def check_dispatch(self, reads: Iterable[HasSpan], writes: Iterable[HasSpan], by: Any = None) -> bool:
        """Whether a dispatch may run beside all that are recorded; it is not held against itself."""
        return self.find(_spans(reads), _spans(writes), by) is None

    def check_and_record(self, reads: Iterable[HasSpan], writes: Iterable[HasSpan], by: Any = None) -> bool:
        """Checks, and records if that went well; otherwise place a barrier, `reset()` and `add_dispatch()`."""
        read, written = _spans(reads), _spans(writes)
        if self.find(read, written, by) is not None:
            return False
        self.record(read, written, by)
        return True

    def track(self, reads: Sequence[Span], writes: Sequence[Span], by: Any = None) -> Conflict | None:
        """For the hot path: checks spans (none empty), forgets everything on a conflict, and records.

        A conflict wants a barrier before the dispatch. The sequences are kept, so they must not change afterwards.
        """
        conflict = self.find(reads, writes, by)
        if conflict is not None:
            self.reset()
        self.record(reads, writes, by)
        return conflict

    def find(self, reads: Sequence[Span], writes: Sequence[Span], by: Any = None) -> Conflict | None:
        """The check alone, on spans of which none is empty."""
        # `_Hull.meets` is spelled out in each loop: calls would cost more than the checks.
        self._checks += 1
        if written := self._written:
            get = written.get
            for memory, start, end in reads:
                hull = get(memory)
                if hull is not None and start < hull.high and hull.low < end:
                    if hull.spans is None or hull.spans.meets(start, end):
                        return self._conflicting(reads, writes, by)
            for memory, start, end in writes:
                hull = get(memory)
                if hull is not None and start < hull.high and hull.low < end:
                    if hull.spans is None or hull.spans.meets(start, end):
                        return self._conflicting(reads, writes, by)
        if read := self._read:
            get = read.get
            for memory, start, end in writes:
                hull = get(memory)
                if hull is not None and start < hull.high and hull.low < end:
                    if hull.spans is None or hull.spans.meets(start, end):
                        return self._conflicting(reads, writes, by)
        if Memory.any_aliases and self._aliased(reads, writes):
            return self._conflicting(reads, writes, by)
        return None

    def record(self, reads: Sequence[Span], writes: Sequence[Span], by: Any = None) -> None:
        """The recording alone, of spans of which none is empty."""
        self._log.append((by, reads, writes))
        hulls = self._read
        for memory, start, end in reads:
            hull = hulls.get(memory)
            if hull is None:
                hulls[memory] = _Hull(start, end)
            elif start < hull.low or hull.high < end or hull.spans is not None:
                hull.take_in(start, end)
        hulls = self._written
        for memory, start, end in writes:
            hull = hulls.get(memory)
            if hull is None:
                hulls[memory] = _Hull(start, end)
            elif start < hull.low or hull.high < end or hull.spans is not None:
                hull.take_in(start, end)

    def _conflicting(self, reads: Sequence[Span], writes: Sequence[Span], by: Any) -> Conflict:
        self._forced += 1
        self._conflict = Conflict(self._log, (by, reads, writes))
        return self._conflict

    def _aliased(self, reads: Sequence[Span], writes: Sequence[Span]) -> bool:
        return (
            _hits_aliases(self._written, reads)
            or _hits_aliases(self._written, writes)
            or _hits_aliases(self._read, writes)
        )
