"""Barriers, taken away one by one: checked mode finds each that was needed, and none was not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mlx_native_py import MlxDevice, settings
from mlx_native_py.hazards.tracker import MemRanges

from .checked_graphs import GRAPHS, Step, barriers, hazards, recorded

pytestmark = [pytest.mark.soft, pytest.mark.full]
ENOUGH_BARRIERS, ENOUGH_GRAPHS = 170, 12


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    with settings.override(soft_checked=True, soft_schedule="ordered"), MlxDevice("soft") as opened:
        yield opened


@pytest.fixture(scope="module")
def graphs(device: MlxDevice) -> dict[str, list[Step]]:
    with pytest.MonkeyPatch.context() as patch:
        return {f"{form} {rows}x{layers}": recorded(device, form, rows, layers, patch) for form, rows, layers in GRAPHS}


def test_every_barrier_is_needed_and_missed(graphs: dict[str, list[Step]]) -> None:
    deleted = flagged = 0
    for name, steps in graphs.items():
        places = barriers(steps)
        assert hazards(steps, places) == 0, f"a false alarm in {name}"
        for place in places:
            deleted += 1
            flagged += hazards(steps, places - {place}) > 0
    print(f"{len(graphs)} graphs, {deleted} barriers, {flagged} deletions flagged")
    assert len(graphs) >= ENOUGH_GRAPHS and deleted >= ENOUGH_BARRIERS
    assert flagged == deleted


class _WithoutRaw(MemRanges):
    def meets(self, reads: Any, writes: Any) -> bool:
        return super().meets((), writes)


class _NeverReset(MemRanges):
    def reset(self) -> None:
        pass


class _LastDispatchOnly(MemRanges):
    def record(self, reads: Any, writes: Any, by: Any = None) -> None:
        self.reset()
        super().record(reads, writes, by)


class _FirstSpanOnly(MemRanges):
    def meets(self, reads: Any, writes: Any) -> bool:
        return super().meets(reads[:1], writes[:1])


TRACKERS = [
    _WithoutRaw,
    _NeverReset,
    _LastDispatchOnly,
    _FirstSpanOnly,
]


@pytest.mark.parametrize("tracker", TRACKERS, ids=lambda tracker: tracker.__name__.strip("_"))
def test_every_broken_tracker_is_noticed(graphs: dict[str, list[Step]], tracker: type[MemRanges]) -> None:
    """By a barrier that is missing, or by one more than are needed."""
    for steps in graphs.values():
        places, right = barriers(steps, tracker()), barriers(steps)
        if hazards(steps, places) or len(places) > len(right):
            return
    pytest.fail("no graph shows the difference")
