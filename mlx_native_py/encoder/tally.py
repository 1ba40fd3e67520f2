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
    counted: int = field(default=0, repr=False, compare=False)
    """How many log entries have been counted or skipped."""
    counted_barriers: int = field(default=0, repr=False, compare=False)

    def settle(self) -> None:
        tracker = self.tracker
        fresh = len(tracker.log) - self.counted
        if fresh:
            self.counted += fresh
            self.dispatches += fresh
            self.auto_concurrent += fresh
        if len(tracker.barriers) > self.counted_barriers:
            placed = tracker.barriers[self.counted_barriers :]
            forced = sum(since is not None for _, since in placed)
            self.counted_barriers += len(placed)
            self.barriers += len(placed)
            self.auto_barriers += forced
            self.auto_concurrent -= forced

    def skip(self) -> None:
        """Excludes one log entry from the counters."""
        self.counted += 1

    def skip_hazard(self) -> None:
        """Excludes the last barrier from the hazard counters: it precedes a plan, not a dispatch."""
        self.auto_barriers -= 1
        self.auto_concurrent += 1

    def restart(self) -> None:
        """Counts the log so far and starts over with an empty one."""
        self.settle()
        self.counted = self.counted_barriers = 0
