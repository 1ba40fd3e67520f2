"""Counts the kernels that the lanes engine took and those it declined, where a whole run is forced onto it."""

from __future__ import annotations

from collections import Counter

from mlx_native_py.softmetal.program import Specialised
from mlx_native_py.softmetal.tiers import LanesTiers


class LanesReport:
    """Watches every choice from its making on."""

    def __init__(self) -> None:
        self.taken = 0
        self.reasons: Counter[str] = Counter()
        take, decline = LanesTiers._take, LanesTiers._decline

        def watched_take(known: object, code: Specialised, state: object) -> None:
            self.taken += 1
            take(known, code, state)  # type: ignore[arg-type]

        def watched_decline(known: object, reason: str) -> None:
            self.reasons[reason] += 1
            decline(known, reason)  # type: ignore[arg-type]

        LanesTiers._take = staticmethod(watched_take)  # type: ignore[assignment, method-assign]
        LanesTiers._decline = staticmethod(watched_decline)  # type: ignore[assignment, method-assign]

    def counts(self) -> tuple[int, dict[str, int]]:
        """As another process can take them in."""
        return self.taken, dict(self.reasons)

    def add(self, taken: int, reasons: dict[str, int]) -> None:
        self.taken += taken
        self.reasons.update(reasons)

    def lines(self) -> list[str]:
        declined = sum(self.reasons.values())
        listed = [f"  {count} declined: {reason}" for reason, count in self.reasons.most_common()]
        return [f"lanes: {self.taken} kernels taken, {declined} declined", *listed]
