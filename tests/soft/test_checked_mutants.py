"""Barriers, taken away one by one: checked mode finds each that was needed, and none was not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from mlx_native_py import MlxBuffer, MlxDevice, settings
from mlx_native_py.hazards.ranges import Span
from mlx_native_py.hazards.tracker import MemRanges, _meets

from .checked_graphs import LONG, SHORT, Step, barriers, hazards, needed, of_form, random_op, recorded

pytestmark = pytest.mark.soft
ENOUGH_BARRIERS, ENOUGH_GRAPHS = 500, 12
Graphs = dict[str, list[Step]]


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    with settings.override(soft_checked=True, soft_schedule="ordered"), MlxDevice("soft") as opened:
        yield opened


def _graphs(device: MlxDevice, chosen: list[tuple[str, int, int]]) -> Graphs:
    with pytest.MonkeyPatch.context() as patch:
        return {" ".join(map(str, graph)): recorded(device, of_form(device, graph), patch) for graph in chosen}


@pytest.fixture(scope="module")
def short(device: MlxDevice) -> Graphs:
    return _graphs(device, SHORT)


@pytest.fixture(scope="module")
def long(device: MlxDevice, short: Graphs) -> Graphs:
    return {**short, **_graphs(device, LONG)}


def _deletions(graphs: Graphs) -> int:
    """How many barriers were taken away, one at a time; checked mode misses each."""
    deleted = 0
    for name, steps in graphs.items():
        places = barriers(steps)
        assert places == needed(steps), name
        assert hazards(steps, places) == 0, f"a false alarm in {name}"
        for place in places:
            assert hazards(steps, places - {place}) > 0, f"the barrier before dispatch {place} of {name}"
        deleted += len(places)
    return deleted


def test_every_barrier_is_needed_and_missed(short: Graphs) -> None:
    deleted = _deletions(short)
    print(f"{len(short)} graphs, {deleted} barriers, each missed")
    assert deleted >= ENOUGH_BARRIERS // 10


@pytest.mark.full
def test_every_barrier_of_many_graphs_is_needed_and_missed(long: Graphs) -> None:
    deleted = _deletions(long)
    print(f"{len(long)} graphs, {deleted} barriers, each missed")
    assert len(long) >= ENOUGH_GRAPHS and deleted >= ENOUGH_BARRIERS


def _random_graph(chosen: random.Random, buffers: list[MlxBuffer], enc: Any) -> None:
    for _ in range(chosen.randint(2, 10)):
        random_op(enc, chosen, buffers)


def test_random_graphs_bring_no_false_alarm(device: MlxDevice, request: pytest.FixtureRequest) -> None:
    buffers = [device.ones((12, 8)) for _ in range(3)]
    waits = 0
    with pytest.MonkeyPatch.context() as patch:
        for seed in range(1000 if request.config.getoption("--full") else 100):
            chosen = random.Random(seed)
            steps = recorded(device, partial(_random_graph, chosen, buffers), patch)
            places = barriers(steps)
            assert places == needed(steps), seed
            assert hazards(steps, places) == 0, seed
            waits += len(places)
    assert waits > seed, "graphs without barriers show nothing"


class _WithoutRaw(MemRanges):
    def meets(self, reads: Any, writes: Any) -> bool:
        return super().meets((), writes)


class _WithoutWar(MemRanges):
    def note(self, reads: Any, writes: Any) -> None:
        super().note((), writes)


class _WithoutWaw(MemRanges):
    def meets(self, reads: Any, writes: Any) -> bool:
        uses = [(self.use_of(memory), start, end) for memory, start, end in writes]
        war = any(use.read_epoch is self.epoch and _meets(use.read, start, end) for use, start, end in uses)
        return war or super().meets(reads, ())


class _LastDispatchOnly(MemRanges):
    def record(self, reads: Any, writes: Any, by: Any = None) -> None:
        self.reset()
        super().record(reads, writes, by)


class _FirstSpanOnly(MemRanges):
    def meets(self, reads: Any, writes: Any) -> bool:
        return super().meets(reads[:1], writes[:1])


class _NeverReset(MemRanges):
    def reset(self) -> None:
        pass


class _Widened(MemRanges):
    """Looks at more than a dispatch touches."""

    def meets(self, reads: Any, writes: Any) -> bool:
        return super().meets([*map(self.widened, reads)], [*map(self.widened, writes)])

    def widened(self, span: Span) -> Span:
        raise NotImplementedError


class _RangesThatTouch(_Widened):
    def widened(self, span: Span) -> Span:
        return span[0], span[1] - 1, span[2] + 1


class _WholeBuffers(_Widened):
    def widened(self, span: Span) -> Span:
        return span[0], span[0].address, span[0].address + span[0].nbytes


def _name(tracker: type[MemRanges]) -> str:
    return tracker.__name__.strip("_")


@pytest.mark.parametrize(
    "tracker", [_WithoutRaw, _WithoutWar, _WithoutWaw, _LastDispatchOnly, _FirstSpanOnly], ids=_name
)
def test_a_tracker_that_overlooks_is_noticed_by_checked_mode(short: Graphs, tracker: type[MemRanges]) -> None:
    assert any(hazards(steps, barriers(steps, tracker())) for steps in short.values())


@pytest.mark.parametrize("tracker", [_NeverReset, _RangesThatTouch, _WholeBuffers], ids=_name)
def test_a_tracker_that_sees_too_much_is_noticed_by_its_barriers(short: Graphs, tracker: type[MemRanges]) -> None:
    found = {name: barriers(steps, tracker()) for name, steps in short.items()}
    assert not any(hazards(short[name], places) for name, places in found.items())
    assert sum(map(len, found.values())) > sum(len(needed(steps)) for steps in short.values())
