"""Which engine runs: lanes where that pays, another one where they decline or take too long to compile."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from mlx_native_py.softmetal.engines import choice
from mlx_native_py.softmetal.engines.lanes.ir.model import Declined
from mlx_native_py.softmetal.program import EngineChoice, Size, Specialised

from . import lanes_kit as kit
from .test_lanes_engine import SUM

CODE = Specialised(1, "lanes", 0, image=None)  # type: ignore[arg-type]
SHAPE = (64, 1, 1)
MANY = choice.MANY_THREADS


class Builder:
    """Builds at once, or when `gate` opens."""

    def __init__(self, *, stored: bool = False, failure: Exception | None = None) -> None:
        self.kept = CODE if stored else None
        self.failure = failure
        self.gate = threading.Event()
        self.gate.set()
        self.made: list[Size] = []

    def stored(self, shape: Size) -> Specialised | None:
        return self.kept

    def make(self, shape: Size) -> Specialised:
        self.made.append(shape)
        self.gate.wait(60)
        if self.failure is not None:
            raise self.failure
        return CODE


def _wait_until_settled(chosen: choice.LanesChoice) -> None:
    end = time.monotonic() + 60
    while not chosen.settled() and time.monotonic() < end:
        time.sleep(0.001)
    assert chosen.settled()


@pytest.mark.parametrize("budget", [10.0, None])
def test_the_first_large_launch_has_lanes_code(budget: float | None) -> None:
    builder = Builder()
    chosen = choice.LanesChoice(builder, budget=budget)
    assert [chosen.choose(SHAPE, MANY) for _ in range(3)] == [CODE] * 3
    assert (builder.made, chosen.settled(), chosen.declined()) == ([SHAPE], True, {})


def test_a_few_small_launches_are_not_worth_a_compilation() -> None:
    builder = Builder()
    chosen = choice.LanesChoice(builder, budget=10.0)
    few = MANY // choice.LEAST_THREADS - 1
    assert [chosen.choose(SHAPE, 1) for _ in range(few)] == [None] * few
    assert builder.made == [] and not chosen.settled() and not chosen.settled(SHAPE)
    assert chosen.choose((32, 1, 1), MANY) is CODE and chosen.settled((32, 1, 1)) and not chosen.settled(SHAPE)
    assert chosen.choose(SHAPE, 1) is CODE and chosen.settled()
    assert builder.made == [(32, 1, 1), SHAPE]


def test_threads_of_launches_add_up_and_one_that_was_prepared_counts_once() -> None:
    builder = Builder()
    chosen = choice.LanesChoice(builder, budget=10.0)
    chosen.prepare(SHAPE, MANY - 600)
    assert chosen.choose(SHAPE, MANY - 600) is None and builder.made == []
    assert chosen.choose(SHAPE, 300) is None and builder.made == []
    chosen.prepare(SHAPE, 300)
    assert chosen.choose(SHAPE, 300) is CODE and builder.made == [SHAPE]


def test_who_asks_for_lanes_gets_them_for_one_thread() -> None:
    builder = Builder()
    assert choice.LanesChoice(builder, budget=None).choose(SHAPE, 1) is CODE and builder.made == [SHAPE]


def test_code_in_the_cache_is_not_compiled_again() -> None:
    builder = Builder(stored=True)
    assert choice.LanesChoice(builder).choose(SHAPE, 1) is CODE and builder.made == []


def test_a_compilation_beyond_the_budget_goes_on_beside_the_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder()
    builder.gate.clear()
    chosen = choice.LanesChoice(builder, budget=0.05)
    begin = time.monotonic()
    assert chosen.choose(SHAPE, MANY) is None
    assert time.monotonic() - begin >= 0.05
    waits: list[float] = []
    monkeypatch.setattr(chosen._builds[SHAPE].done, "wait", waits.append)
    assert [chosen.choose(SHAPE, MANY) for _ in range(100)] == [None] * 100
    assert len(waits) == 100 and max(waits) <= 0, "only the first launch waits"
    monkeypatch.undo()
    assert not chosen.settled()
    builder.gate.set()
    _wait_until_settled(chosen)
    assert chosen.choose(SHAPE, MANY) is CODE and builder.made == [SHAPE]


def test_what_is_prepared_compiles_without_a_launch() -> None:
    builder = Builder()
    builder.gate.clear()
    chosen = choice.LanesChoice(builder)
    chosen.prepare(SHAPE, MANY)
    chosen.prepare(SHAPE, MANY)
    assert not chosen.settled() and chosen._builds[SHAPE].deadline is None, "nobody waits for it yet"
    builder.gate.set()
    _wait_until_settled(chosen)
    assert chosen.choose(SHAPE, MANY) is CODE and builder.made == [SHAPE]


@pytest.mark.parametrize("budget", [10.0, None])
@pytest.mark.parametrize(
    ("failure", "reason"), [(Declined("recursion"), "recursion"), (OSError("disk full"), "OSError: disk full")]
)
def test_declined_kernels_run_elsewhere_and_say_why(budget: float | None, failure: Exception, reason: str) -> None:
    builder = Builder(failure=failure)
    chosen = choice.LanesChoice(builder, budget=budget)
    assert [chosen.choose(SHAPE, MANY) for _ in range(3)] == [None] * 3
    assert (builder.made, chosen.settled(), chosen.declined()) == ([SHAPE], True, {"lanes (64, 1, 1)": reason})


def test_the_number_of_shapes_is_bounded() -> None:
    chosen = choice.LanesChoice(Builder(), budget=None)
    for x in range(1, choice.MOST_SHAPES + 1):
        assert chosen.choose((x, 1, 1), MANY) is CODE
    assert chosen.choose((999, 1, 1), MANY) is None
    assert "shapes" in chosen.declined()["lanes (999, 1, 1)"]


@pytest.mark.parametrize(
    ("asked", "checked", "waits", "engine"),
    [
        ("auto", False, [], "flat"),
        ("auto", False, ["simd_sum"], "fibers"),
        ("auto", True, [], "fibers"),
        ("lanes", False, [], "flat"),
        ("flat", False, ["simd_sum"], "fibers"),
        ("fibers", False, [], "fibers"),
    ],
)
def test_the_engine_for_every_shape(asked: EngineChoice, checked: bool, waits: list[str], engine: str) -> None:
    found, declined = choice.scalar_engine(asked, checked=checked, waits=waits)
    assert found == engine and (found == "flat") == (declined == {})


@pytest.mark.parametrize(
    ("asked", "checked", "may"),
    [
        ("auto", False, True),
        ("auto", True, False),
        ("lanes", False, True),
        ("lanes", True, False),
        ("flat", False, False),
        ("fibers", False, False),
    ],
)
def test_whether_lanes_may_run(asked: EngineChoice, checked: bool, may: bool) -> None:
    assert (choice.lanes_refused(asked, checked=checked) == "") == may


def test_a_kernel_moves_from_fibers_to_lanes_without_another_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlx_native_py.softmetal.msl.lanes.BUDGET_S", 0.0)
    source = kit.fresh(SUM)
    x = np.random.default_rng(2).standard_normal(1 << 14, dtype=np.float32)
    arrays, grid = [x, np.zeros_like(x)], ((x.size, 1, 1), (256, 1, 1))
    state = kit.pipeline(source, kit.device("auto"))
    expected, engines = kit.launch(state, arrays, *grid)[0][1], [state.soft_engine()]
    end = time.monotonic() + 60
    while engines[-1] != "lanes":
        assert time.monotonic() < end, state.soft_declined()
        left, commands = kit.launch(state, arrays, *grid)
        engines.append(state.soft_engine())
        assert commands.error() is None
        np.testing.assert_array_equal(left[1], expected)
    assert engines[0] == "fibers" and state.soft_settled()
    again = kit.pipeline(source, kit.device("auto"))
    np.testing.assert_array_equal(kit.launch(again, arrays, *grid)[0][1], expected)
    assert again.soft_engine() == "lanes"


LEAVING = """
import sys
import numpy as np
from tests.soft import lanes_kit as kit
state = kit.pipeline(kit.fresh(sys.argv[1]), kit.device("auto"))
state.soft_prepare((256, 1, 1))
print("leaving", state.soft_settled())
"""


def test_the_process_can_end_while_code_is_compiled() -> None:
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", LEAVING, SUM], capture_output=True, text=True, timeout=60, cwd=kit.ROOT
    )
    assert (done.returncode, done.stdout) == (0, "leaving False\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - begin < 30
