"""Counts the kernels that the lanes engine took and those it declined, where a whole run is forced onto it."""

from __future__ import annotations

from collections import Counter

from mlx_native_py.softmetal.engines.choice import LanesChoice
from mlx_native_py.softmetal.program import Size


class LanesReport:
    """Watches every choice from its making on."""

    def __init__(self) -> None:
        self.taken = 0
        self.reasons: Counter[str] = Counter()
        begin = LanesChoice._begin

        def watched(choice: LanesChoice, shape: Size, threads: int) -> object:
            build = begin(choice, shape, threads)
            if build and build.reason:
                self.reasons[build.reason] += 1
            elif build:
                self.taken += 1
            return build

        LanesChoice._begin = watched  # type: ignore[assignment, method-assign]

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
