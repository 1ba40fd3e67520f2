"""Counters of one encoder, computed from its log on demand, so that a dispatch does not pay for counting."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..counters import Tally
from ..hazards.tracker import MemRanges

__all__ = ["EncoderTally"]


@dataclass(slots=True)
class EncoderTally(Tally):
    """The counters of an encoder; each log entry is a tracked dispatch, unless it is skipped.

    A hazard barrier removes the dispatch after it from the concurrent ones.
    """

    tracker: MemRanges = field(default_factory=MemRanges, repr=False, compare=False)
    counted: tuple[int, int, int] = field(default=(0, 0, 0), repr=False, compare=False)
    """How many log entries, barriers and hazard barriers have been counted or skipped."""

    def settle(self) -> None:
        entries, barriers, forced = now = self.tracker.sums()
        before = self.counted
        self.dispatches += entries - before[0]
        self.barriers += barriers - before[1]
        self.auto_barriers += forced - before[2]
        self.auto_concurrent += entries - before[0] - (forced - before[2])
        self.counted = now

    def skip(self) -> None:
        """Excludes one log entry from the counters."""
        entries, barriers, forced = self.counted
        self.counted = entries + 1, barriers, forced

    def skip_hazard(self) -> None:
        """Excludes the last barrier from the hazard counters: it precedes a plan, not a dispatch."""
        self.auto_barriers -= 1
        self.auto_concurrent += 1
