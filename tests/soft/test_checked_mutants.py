"""Barriers and declarations, taken away one by one: checked mode finds each that was needed, and none was not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxBuffer, MlxDevice, settings
from mlx_native_py.hazards.ranges import Span
from mlx_native_py.hazards.tracker import MemRanges, _meets

from .checked_graphs import LONG, SHORT, Graph, Step, barriers, conflict, hazards, needed, of_form, random_op, recorded
from .checked_passes import FAMILIES, model_runs, watched
from .declaration_mutants import mutants

pytestmark = pytest.mark.soft
ENOUGH_BARRIERS, ENOUGH_GRAPHS, ENOUGH_DECLARATIONS = 500, 12, 1000
REPLAYED: list[Graph] = [("quarters", 8, 4), ("overwritten", 8, 4)]
Graphs = dict[str, list[Step]]


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    # Checked models are slow, and the machine may have other work.
    with settings.override(soft_checked=True, soft_schedule="ordered", soft_timeout=300.0), MlxDevice("soft") as opened:
        yield opened


def _graphs(device: MlxDevice, chosen: list[Graph]) -> Graphs:
    with pytest.MonkeyPatch.context() as patch:
        return {" ".join(map(str, graph)): recorded(device, of_form(device, graph), patch) for graph in chosen}


def _replayed(device: MlxDevice) -> Graphs:
    """Plans as they run: line by line, and as indirect commands."""
    graphs: Graphs = {}
    for graph in REPLAYED:
        with device.capture() as captured:
            of_form(device, graph)(captured.encoder)
        for indirect in (False, True):
            with watched() as passes:
                captured.plan(indirect=indirect).run()
            graphs |= {f"plan of {graph}, {indirect}": each.steps for each in passes}
            assert [each.places for each in passes] == [barriers(each.steps) for each in passes]
    return graphs


def _of_models(device: MlxDevice, folder: Path) -> Graphs:
    """Prompts and steps of tiny models of every family, with the barriers that they really had."""
    graphs: Graphs = {}
    for family in FAMILIES:
        for name, run in model_runs(device, folder / family, family).items():
            with watched() as passes:
                run()
            assert [each.places for each in passes] == [barriers(each.steps) for each in passes], name
            graphs |= {f"{name} {number}": each.steps for number, each in enumerate(passes)}
    return graphs


@pytest.fixture(scope="module")
def short(device: MlxDevice) -> Graphs:
    return {**_graphs(device, SHORT), **_replayed(device)}


@pytest.fixture(scope="module")
def models(device: MlxDevice, tmp_path_factory: pytest.TempPathFactory) -> Graphs:
    return _of_models(device, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def long(device: MlxDevice, short: Graphs, models: Graphs) -> Graphs:
    return {**short, **_graphs(device, LONG), **models}


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


def _moved(steps: list[Step], places: set[int]) -> Iterator[set[int]]:
    """The barriers with one of them a dispatch earlier or later."""
    for place in places:
        for other in {place - 1, place + 1} & set(range(1, len(steps))) - places:
            yield places - {place} | {other}


def _is_right(steps: list[Step], places: set[int]) -> bool:
    """Whether no two dispatches between two barriers conflict."""
    bounds = [0, *sorted(places), len(steps)]
    runs = [steps[start:end] for start, end in pairwise(bounds)]
    return not any(conflict(one, two) for run in runs for one, two in combinations(run, 2))


def _moves(graphs: Graphs) -> Counter[bool]:
    """How many barriers were moved to a right place, and to a wrong one; checked mode tells which."""
    found = Counter[bool]()
    for name, steps in graphs.items():
        for places in _moved(steps, barriers(steps)):
            right = _is_right(steps, places)
            assert (hazards(steps, places) == 0) == right, f"{name} with barriers at {sorted(places)}"
            found[right] += 1
    return found


def test_a_barrier_in_the_wrong_place_is_missed(short: Graphs) -> None:
    assert _moves(short)[False] >= ENOUGH_BARRIERS // 10


@pytest.mark.full
def test_a_barrier_in_the_wrong_place_of_many_graphs_is_missed(long: Graphs) -> None:
    found = _moves(long)
    print(f"{found[False]} barriers moved to where they do not help, each missed; {found[True]} where they do")
    assert found[False] >= ENOUGH_BARRIERS


def _declarations(graphs: Graphs) -> Counter[str]:
    """What became of declarations with a range dropped or shrunk; checked mode finds each that matters."""
    found = Counter[str]()
    for name, steps in graphs.items():
        for step in steps:
            for each in mutants(step):
                found["equivalent" if each.is_equivalent else "flagged"] += 1
                assert each.is_flagged or each.is_equivalent, f"{name}: {step.kernel} without {each.left_out}"
    return found


def test_what_is_not_declared_is_missed(short: Graphs) -> None:
    found = _declarations(short)
    assert found["flagged"] >= ENOUGH_DECLARATIONS
    assert found["equivalent"] < found["flagged"] / 4


@pytest.mark.full
def test_what_is_not_declared_of_many_graphs_is_missed(long: Graphs) -> None:
    found = _declarations(long)
    print(f"{found['flagged']} declarations cut short, each flagged; {found['equivalent']} more change nothing")
    assert found["equivalent"] < found["flagged"] / 4


@pytest.fixture(scope="module")
def plain() -> Iterator[MlxDevice]:
    with settings.override(soft_checked=False, soft_schedule="ordered"), MlxDevice("soft") as opened:
        yield opened


@pytest.mark.parametrize("graph", SHORT[::2], ids=str)
def test_results_are_the_same_in_sixteen_orders(plain: MlxDevice, graph: Graph) -> None:
    with plain.schedules(16) as runs, plain.command_encoder() as enc:
        of_form(plain, graph)(enc)
    assert (runs.orders, runs.passes) == (16, 1)


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_models_say_the_same_in_sixteen_orders(plain: MlxDevice, tmp_path: Path, family: str) -> None:
    usual = {name: run() for name, run in model_runs(plain, tmp_path, family).items()}
    with plain.schedules(16) as runs:
        others = {name: run() for name, run in model_runs(plain, tmp_path, family).items()}
    assert runs.passes >= len(usual) == len(others)
    assert all(np.array_equal(usual[name], others[name]) for name in usual)


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
