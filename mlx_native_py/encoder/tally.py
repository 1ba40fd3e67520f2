"""Counters of one encoder, worked out from its log when somebody asks, so that a dispatch does not pay for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..counters import Tally
from ..hazards.tracker import MemRanges

__all__ = ["EncoderTally"]


@dataclass(slots=True)
class EncoderTally(Tally):
    """The seven figures of an encoder; each entry of the log is a dispatch that was tracked, unless it was skipped.

    A barrier takes the dispatch that it stands before out of those that ran beside others.
    """

    tracker: MemRanges = field(default_factory=MemRanges, repr=False, compare=False)
    counted: int = field(default=0, repr=False, compare=False)
    """The entries of the log that are in the figures, or do not belong there."""
    counted_barriers: int = field(default=0, repr=False, compare=False)

    def settle(self) -> None:
        tracker = self.tracker
        fresh = len(tracker.log) - self.counted
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
        """One entry of the log is not to be counted."""
        self.counted += 1

    def skip_hazard(self) -> None:
        """The last barrier stands before a plan, and not before a dispatch of its own."""
        self.auto_barriers -= 1
        self.auto_concurrent += 1

    def restart(self) -> None:
        """The log begins anew."""
        self.settle()
        self.counted = self.counted_barriers = 0
