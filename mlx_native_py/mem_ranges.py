"""Which bytes the dispatches since the last barrier touch, and why the next one must wait.

Ranges are half-open and exact. Each is kept under the `Memory` that it lies in; per memory, a hull of what was read and
one of what was written decide most questions, and sorted spans the rest, so a dispatch costs the same
whether ten ranges are live or a hundred thousand.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol
from weakref import ReferenceType, WeakSet, ref

from .spans import Spans

__all__ = ["BufferRange", "Conflict", "Hazard", "HazardKind", "MemRangeRole", "MemRanges", "Memory", "Span"]


class Memory:
    """One stretch of this process's memory, under which ranges are kept; several views share it.

    `known=False` says that the address means nothing to the CPU; such a memory has no aliases.
    """

    __slots__ = ("address", "nbytes", "label", "aliases", "__weakref__")

    def __init__(self, address: int, nbytes: int, label: str = "", *, known: bool = True) -> None:
        self.address = address
        self.nbytes = nbytes
        self.label = label
        self.aliases: tuple[ReferenceType[Memory], ...] = ()
        """Other live memories with some of the same bytes."""
        if known:
            with _lock:
                for other in list(_live):
                    if address < other.address + other.nbytes and other.address < address + nbytes:
                        self._meet(other)
                        other._meet(self)
                _live.add(self)

    def _meet(self, other: Memory) -> None:
        self.aliases = (*(alias for alias in self.aliases if alias() is not None), ref(other))

    def __repr__(self) -> str:
        return f"{self.label or 'memory'} ({self.nbytes} bytes at {self.address:#x})"


_lock = threading.RLock()
_live: WeakSet[Memory] = WeakSet()

Span = tuple[Memory, int, int]
"""A memory and the addresses of its first byte and of the byte after its last."""


class MemRangeRole(Enum):
    """What a dispatch does with a range."""

    Src = "read"
    Dst = "write"


class _HasSpan(Protocol):
    @property
    def span(self) -> Span: ...


@dataclass(frozen=True, slots=True)
class BufferRange:
    """Bytes from `start` up to `end` (addresses) of a memory, read or written.

    >>> memory = Memory(4096, 64)
    >>> low = BufferRange(memory, 4096, 4128, MemRangeRole.Dst)
    >>> high = BufferRange(memory, 4128, 4160, MemRangeRole.Src)
    >>> low.conflicts_with(high), low.conflicts_with(BufferRange(memory, 4127, 4160, MemRangeRole.Src))
    (False, True)
    """

    allocation: Memory
    start: int
    end: int
    role: MemRangeRole

    @classmethod
    def from_buffer(cls, buffer: _HasSpan, role: MemRangeRole) -> BufferRange:
        """The exact bytes of a buffer or view."""
        return cls(*buffer.span, role)

    @property
    def span(self) -> Span:
        return self.allocation, self.start, self.end

    def conflicts_with(self, other: BufferRange) -> bool:
        """Whether they share bytes and one of them writes; the same both ways round."""
        writes = self.role is MemRangeRole.Dst or other.role is MemRangeRole.Dst
        return writes and _shared(self.span, other.span) is not None


def _shared(one: Span, two: Span) -> tuple[int, int] | None:
    """The bytes that two spans have in common."""
    start, end = max(one[1], two[1]), min(one[2], two[2])
    if start >= end or not (one[0] is two[0] or any(alias() is two[0] for alias in one[0].aliases)):
        return None
    return start, end


class HazardKind(Enum):
    """What would go wrong without a barrier."""

    RAW = "read after write"
    WAR = "write after read"
    WAW = "write after write"


@dataclass(frozen=True, slots=True)
class Hazard:
    """Two dispatches that must not overlap, and the first bytes found that say so."""

    kind: HazardKind
    earlier: Any
    later: Any
    start: int
    end: int
    allocation: Memory

    @property
    def offset(self) -> int:
        """Where the bytes begin in their allocation."""
        return self.start - self.allocation.address

    @property
    def nbytes(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        first, _, second = self.kind.value.replace("read", "reads").replace("write", "writes").split()
        return (
            f"{self.kind.name}: {self.later} {first} bytes {self.offset}..{self.offset + self.nbytes} "
            f"of {self.allocation}, which {self.earlier} {second}"
        )


_Step = tuple[Any, Sequence[Span], Sequence[Span]]


class Conflict:
    """That a dispatch must wait; `hazard` looks up why when it is asked."""

    __slots__ = ("_log", "_count", "_step", "_hazard")

    def __init__(self, log: list[_Step], step: _Step) -> None:
        self._log = log
        self._count = len(log)
        self._step = step
        self._hazard: Hazard | None = None

    @property
    def hazard(self) -> Hazard:
        """The latest dispatch in the way of the first range that has one; reads are looked at first."""
        if self._hazard is None:
            self._hazard = self._look()
            self._log = []
        return self._hazard

    def _look(self) -> Hazard:
        by, reads, writes = self._step
        for span, is_write in [*((span, False) for span in reads), *((span, True) for span in writes)]:
            for earlier, its_reads, its_writes in reversed(self._log[: self._count]):
                kind = HazardKind.WAW if is_write else HazardKind.RAW
                found = next(filter(None, (_shared(span, other) for other in its_writes)), None)
                if found is None and is_write:
                    kind = HazardKind.WAR
                    found = next(filter(None, (_shared(span, other) for other in its_reads)), None)
                if found is not None:
                    return Hazard(kind, earlier, by, *found, span[0])
        raise LookupError("the memories of this conflict are no longer aliases")

    def __repr__(self) -> str:
        return f"Conflict({self.hazard})"


class _Touched:
    """What the live dispatches read and wrote of one memory: a hull each, and spans once the hull has gaps."""

    __slots__ = ("read_low", "read_high", "reads", "write_low", "write_high", "writes")

    def __init__(self) -> None:
        self.read_low = self.read_high = self.write_low = self.write_high = 0
        self.reads: Spans | None = None
        self.writes: Spans | None = None


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

    __slots__ = ("_records", "_log", "_count", "_checks", "_forced", "_conflict")

    def __init__(self) -> None:
        self._records: dict[Memory, _Touched] = {}
        self._log: list[_Step] = []
        self._count = self._checks = self._forced = 0
        self._conflict: Conflict | None = None

    def __len__(self) -> int:
        return self._count

    def len(self) -> int:
        """How many ranges are live; one that is recorded twice counts twice, an empty one not at all."""
        return self._count

    def is_empty(self) -> bool:
        return not self._count

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
        self._records = {}
        self._log = []
        self._count = 0

    def push(self, given: BufferRange, by: Any = None) -> None:
        """Records one range without a check."""
        spans = (given.span,)
        self.record(() if given.role is MemRangeRole.Dst else spans, spans if given.role is MemRangeRole.Dst else (), by)

    def add_dispatch(self, reads: Iterable[_HasSpan], writes: Iterable[_HasSpan], by: Any = None) -> None:
        """Records a dispatch without a check."""
        self.record([item.span for item in reads], [item.span for item in writes], by)

    def check_dispatch(self, reads: Iterable[_HasSpan], writes: Iterable[_HasSpan], by: Any = None) -> bool:
        """Whether a dispatch may run beside all that are recorded; it is not held against itself."""
        return self.find([item.span for item in reads], [item.span for item in writes], by) is None

    def check_and_record(self, reads: Iterable[_HasSpan], writes: Iterable[_HasSpan], by: Any = None) -> bool:
        """Checks, and records if that went well; otherwise place a barrier, `reset()` and `add_dispatch()`."""
        read, write = [item.span for item in reads], [item.span for item in writes]
        if self.find(read, write, by) is not None:
            return False
        self.record(read, write, by)
        return True

    def track(self, reads: Sequence[Span], writes: Sequence[Span], by: Any = None) -> Conflict | None:
        """For the hot path: checks spans, forgets everything on a conflict, and records; a conflict wants a barrier.

        The sequences are kept, so they must not change afterwards.
        """
        conflict = self.find(reads, writes, by)
        if conflict is not None:
            self.reset()
        self.record(reads, writes, by)
        return conflict

    def find(self, reads: Sequence[Span], writes: Sequence[Span], by: Any = None) -> Conflict | None:
        """The check alone, on spans."""
        self._checks += 1
        records = self._records
        if not records:
            return None
        get = records.get
        for memory, start, end in reads:
            touched = get(memory)
            if touched is not None and start < touched.write_high and touched.write_low < end:
                if start < end and (touched.writes is None or touched.writes.meets(start, end)):
                    return self._conflicting(reads, writes, by)
            if memory.aliases and self._aliased(memory, start, end, False):
                return self._conflicting(reads, writes, by)
        for memory, start, end in writes:
            touched = get(memory)
            if touched is not None:
                if start < touched.write_high and touched.write_low < end:
                    if start < end and (touched.writes is None or touched.writes.meets(start, end)):
                        return self._conflicting(reads, writes, by)
                if start < touched.read_high and touched.read_low < end:
                    if start < end and (touched.reads is None or touched.reads.meets(start, end)):
                        return self._conflicting(reads, writes, by)
            if memory.aliases and self._aliased(memory, start, end, True):
                return self._conflicting(reads, writes, by)
        return None

    def _conflicting(self, reads: Sequence[Span], writes: Sequence[Span], by: Any) -> Conflict:
        self._forced += 1
        self._conflict = Conflict(self._log, (by, reads, writes))
        return self._conflict

    def _aliased(self, memory: Memory, start: int, end: int, is_write: bool) -> bool:
        """Whether other memories over the same bytes were touched there."""
        for alias in memory.aliases:
            other = alias()
            touched = None if other is None else self._records.get(other)
            if touched is None or start >= end:
                continue
            if start < touched.write_high and touched.write_low < end:
                if touched.writes is None or touched.writes.meets(start, end):
                    return True
            if is_write and start < touched.read_high and touched.read_low < end:
                if touched.reads is None or touched.reads.meets(start, end):
                    return True
        return False

    def record(self, reads: Sequence[Span], writes: Sequence[Span], by: Any = None) -> None:
        """The recording alone, of spans."""
        self._log.append((by, reads, writes))
        records = self._records
        get = records.get
        for memory, start, end in reads:
            touched = get(memory)
            if touched is None:
                touched = records[memory] = _Touched()
            low, high = touched.read_low, touched.read_high
            if low <= start and end <= high and touched.reads is None:
                continue
            ...
