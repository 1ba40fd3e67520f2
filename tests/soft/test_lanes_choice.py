"""When kernels move to lanes: heat, trial, verdicts, the disk cache, and launches that never wait for a compiler."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from mlx_native_py.softmetal import tiers
from mlx_native_py.softmetal.engines.lanes.model import Declined
from mlx_native_py.softmetal.program import Size, Specialised

from . import lanes_kit as kit
from .test_lanes_engine import SUM

CODE = Specialised(1, "lanes", 0, None)
SHAPE = (64, 1, 1)
HOT = tiers.HEAT_NS


class Builder:
    """Builds at once, or when `gate` opens."""

    def __init__(self, *, stored: bool = False, declines: str = "", verdict: str | None = None) -> None:
        self.kept = CODE if stored else None
        self.declines = declines
        self.told = verdict
        self.gate = threading.Event()
        self.gate.set()
        self.made = 0

    def stored(self, shape: Size) -> Specialised | None:
        return self.kept

    def make(self, shape: Size) -> Specialised:
        self.gate.wait(10)
        self.made += 1
        if self.declines:
            raise Declined(self.declines)
        return CODE

    def verdict(self, shape: Size) -> str | None:
        return self.told

    def put_verdict(self, shape: Size, reason: str) -> None:
        self.told = reason


def _launch(choice: tiers.LanesTiers, nanoseconds: int = HOT, lanes_nanoseconds: int = 1) -> bool:
    code = choice.choose(SHAPE)
    if choice.listens(SHAPE):
        choice.ran(SHAPE, code, 1, lanes_nanoseconds if code else nanoseconds)
    return code is not None


def _wait_until(true: object) -> None:
    end = time.monotonic() + 10
    while not true() and time.monotonic() < end:  # type: ignore[operator]
        time.sleep(0.001)


def test_short_kernels_are_never_compiled_again() -> None:
    builder = Builder()
    choice = tiers.LanesTiers(builder, "fibers", at_once=False)
    assert not any(_launch(choice, HOT // 20) for _ in range(19))
    time.sleep(0.01)
    assert builder.made == 0


def test_hot_kernels_move_when_the_code_is_ready() -> None:
    builder = Builder()
    builder.gate.clear()
    choice = tiers.LanesTiers(builder, "fibers", at_once=False)
    assert [_launch(choice) for _ in range(5)] == [False] * 5
    assert not choice.settled()
    builder.gate.set()
    _wait_until(lambda: choice.choose(SHAPE) is not None)
    assert [_launch(choice) for _ in range(2 * tiers.TRIALS)] == [True, False] * tiers.TRIALS  # turn by turn
    assert choice.settled() and all(_launch(choice) for _ in range(3))
    _wait_until(lambda: builder.told is not None)
    assert (builder.told, choice.declined()) == ("", {})


def test_lanes_are_given_up_where_they_are_slower() -> None:
    builder = Builder(stored=True)
    choice = tiers.LanesTiers(builder, "flat", at_once=False)
    trial = [_launch(choice, 100, 200) for _ in range(2 * tiers.TRIALS)]
    assert trial == [True, False] * tiers.TRIALS
    assert not _launch(choice)
    assert "slower than flat" in choice.declined()["lanes (64, 1, 1)"]
    _wait_until(lambda: builder.told is not None)
    assert "slower than flat" in (builder.told or "")


def test_a_close_decision_is_not_kept_for_other_processes() -> None:
    builder = Builder(stored=True)
    choice = tiers.LanesTiers(builder, "flat", at_once=False)
    for _ in range(2 * tiers.TRIALS):
        _launch(choice, 100, 110)
    assert not _launch(choice) and choice.settled()
    assert builder.told is None


@pytest.mark.parametrize(("verdict", "taken"), [("", True), ("slower than flat", False)])
def test_verdicts_of_earlier_runs_hold(verdict: str, taken: bool) -> None:
    choice = tiers.LanesTiers(Builder(stored=True, verdict=verdict), "flat", at_once=False)
    assert [_launch(choice) for _ in range(5)] == [taken] * 5
    assert choice.settled()


@pytest.mark.parametrize("at_once", [False, True])
def test_declined_kernels_stay_and_say_why(at_once: bool) -> None:
    builder = Builder(declines="recursion")
    choice = tiers.LanesTiers(builder, "fibers", at_once=at_once)
    assert not _launch(choice)
    _wait_until(choice.settled)
    assert not any(_launch(choice) for _ in range(3))
    assert (builder.made, choice.declined()) == (1, {"lanes (64, 1, 1)": "recursion"})


def test_asked_for_lanes_are_there_at_the_first_launch() -> None:
    choice = tiers.LanesTiers(Builder(), "fibers", at_once=True)
    assert all(_launch(choice) for _ in range(10)) and choice.settled()


def test_the_number_of_shapes_is_bounded() -> None:
    choice = tiers.LanesTiers(Builder(), "fibers", at_once=True)
    for x in range(1, tiers.MOST_SHAPES + 1):
        assert choice.choose((x, 1, 1)) is CODE
    assert choice.choose((999, 1, 1)) is None
    assert "shapes" in choice.declined()["lanes (999, 1, 1)"]


def test_a_hot_kernel_is_swapped_without_a_stall_and_found_again() -> None:
    source = kit.fresh(SUM)
    x = np.random.default_rng(2).standard_normal(1 << 18, dtype=np.float32)
    arrays, grid = [x, np.zeros_like(x)], ((x.size, 1, 1), (256, 1, 1))
    expected = kit.run(source, arrays, *grid, engine="fibers")[1]
    state = kit.pipeline(source, kit.device("auto"), safe=True)
    assert state.soft_engine() == "fibers"
    engines, longest = [], 0.0
    end = time.monotonic() + 60
    while not state.soft_settled() or "lanes" not in engines:
        begin = time.monotonic()
        left, commands = kit.launch(state, arrays, *grid)
        longest = max(longest, time.monotonic() - begin)
        engines.append(state.soft_engine())
        assert commands.error() is None
        np.testing.assert_array_equal(left[1], expected)
        assert time.monotonic() < end, state.soft_declined()
    assert engines[0] == "fibers"
    assert longest < 2.0, f"a launch took {longest:.1f} s"
    again = kit.pipeline(source, kit.device("auto"), safe=True)
    kit.launch(again, arrays, *grid)
    assert again.soft_engine() == "lanes"


LEAVING = """
import sys
import numpy as np
from mlx_native_py.softmetal import tiers
from tests.soft import lanes_kit as kit
tiers.HEAT_NS = 0
state = kit.pipeline(kit.fresh(sys.argv[1]), kit.device("auto"))
x = np.ones(256, np.float32)
kit.launch(state, [x, x], (256, 1, 1), (256, 1, 1))
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


FORKING = """
import os, sys
import numpy as np
from mlx_native_py.softmetal import background, tiers
from tests.soft import lanes_kit as kit
tiers.HEAT_NS = 0
state = kit.pipeline(kit.fresh(sys.argv[1]), kit.device("auto"))
x = np.ones(256, np.float32)
kit.launch(state, [x, x], (256, 1, 1), (256, 1, 1))
child = os.fork()
if child == 0:
    import threading
    done = threading.Event()
    background.later(done.set)
    sys.exit(0 if done.wait(10) else 7)
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_has_a_background_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, SUM], capture_output=True, text=True, timeout=60, cwd=kit.ROOT
    )
    assert (done.returncode, done.stdout) == (0, "child ended with 0\n"), done.stderr
