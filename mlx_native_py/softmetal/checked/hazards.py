"""Missing barriers: dispatches of one concurrent encoder that access the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .dispatch import Footprint
from .errors import DispatchName, MissingBarrier
from .intervals import EMPTY, Intervals, Span

# Names the buffer at an address and says where it starts.
Locate = Callable[[int], tuple[str, int]]


@dataclass(frozen=True)
class Done:
    """A completed dispatch and its footprint."""

    name: DispatchName
    touched: Footprint

    def without(self, span: Span) -> Done:
        t = self.touched
        return replace(
            self,
            touched=Footprint(
                t.reads.without(span),
                t.writes.without(span),
                t.atomic_reads.without(span),
                t.atomic_writes.without(span),
            ),
        )


def conflict(a: Footprint, b: Footprint) -> tuple[Literal["RAW", "WAR", "WAW"], Span] | None:
    """What `b`, the later one, does to `a`; atomic accesses on both sides do no harm."""
    written = a.writes | a.atomic_writes
    if span := _first(a.writes.overlap(b.writes | b.atomic_writes), a.atomic_writes.overlap(b.writes)):
        return "WAW", span
    if span := _first(written.overlap(b.reads), a.writes.overlap(b.atomic_reads)):
        return "RAW", span
    if span := _first(a.reads.overlap(b.writes | b.atomic_writes), a.atomic_reads.overlap(b.writes)):
        return "WAR", span
    return None


def _first(one: Span | None, two: Span | None) -> Span | None:
    return min(one, two) if one and two else one or two


class HazardCheck:
    """Checks one compute encoder. Serial encoders need none, and encoders run in order."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._done: list[Done] = []
        self._written: Intervals = EMPTY
        self._touched: Intervals = EMPTY

    def dispatch(self, name: DispatchName, touched: Footprint) -> list[MissingBarrier]:
        """Adds a dispatch that has run; answers its conflicts with the others since the last barrier."""
        writes = touched.writes | touched.atomic_writes
        reads = touched.reads | touched.atomic_reads
        missing = []
        if writes.overlap(self._touched) or reads.overlap(self._written):
            missing = [hazard for other in self._done if (hazard := self._between(other, Done(name, touched)))]
        self._done.append(Done(name, touched))
        self._written |= writes
        self._touched |= reads | writes
        return missing

    def _between(self, one: Done, two: Done) -> MissingBarrier | None:
        first, second = sorted((one, two), key=lambda done: done.name.index)
        found = conflict(first.touched, second.touched)
        if found is None:
            return None
        kind, (start, end) = found
        buffer, base = self._locate(start)
        return MissingBarrier(kind, first.name, second.name, buffer, (start - base, end - base))

    def barrier(self, resources: Sequence[Span] | None = None) -> None:
        """Orders what comes after everything so far, or only after what touched the given addresses."""
        if resources is None:
            self._done.clear()
            self._written = self._touched = EMPTY
            return
        for span in resources:
            self._done = [done.without(span) for done in self._done]
            self._written, self._touched = self._written.without(span), self._touched.without(span)
