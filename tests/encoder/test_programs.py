"""Programs give the same results whatever the device can do, however they are encoded, in every order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from kit.encoding import DISPATCH, STAGE, sampling, soft_device
from kit.programs import PROGRAMS, Run

from mlx_native_py import MlxDevice, settings
from mlx_native_py.errors import CommandBufferError
from mlx_native_py.profiling import kernel_profile
from mlx_native_py.softmetal.checked import MissingBarrier

pytestmark = pytest.mark.soft

SCHEDULES = ("ordered", "reversed", "shuffled:1", "shuffled:2", "shuffled:3")
SAMPLING = {"stage": sampling(STAGE), "dispatch": sampling(STAGE, DISPATCH), "none": sampling(counter_sets=False)}
WAYS = [
    Run(None, auto_barrier=auto, unretained=unretained, by_hand=not auto)  # type: ignore[arg-type]
    for auto, unretained in itertools.product((True, False), (False, True))
]


_opened: dict[tuple[str, str, bool], MlxDevice] = {}


def device(schedule: str, answer: str, checked: bool = False) -> MlxDevice:
    """One device of each kind for all tests."""
    key = schedule, answer, checked
    if key not in _opened and checked:
        with settings.override(soft_checked=True, soft_schedule=schedule):
            _opened[key] = MlxDevice("soft")
    elif key not in _opened:
        _opened[key] = soft_device(SAMPLING[answer], schedule=schedule)
    return _opened[key]


@pytest.fixture(scope="module", autouse=True)
def close_devices() -> Iterator[None]:
    yield
    while _opened:
        _opened.popitem()[1].close()


def name(run: Run) -> str:
    return ("auto" if run.auto_barrier else "by hand") + ("-unretained" if run.unretained else "")


@pytest.mark.parametrize("way", WAYS, ids=name)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("answer", SAMPLING)
@pytest.mark.parametrize("profiled", [False, True], ids=["plain", "profiled"])
def test_every_program_is_the_same_everywhere(profiled: bool, answer: str, schedule: str, way: Run) -> None:
    run = replace(way, device=device(schedule, answer), made=[])
    with settings.override(profile_cb=profiled, profile_dispatch=profiled):
        result = {title: program(run) for title, (program, _) in PROGRAMS.items()}
    kernel_profile.reset()
    assert result == {title: expected() for title, (_, expected) in PROGRAMS.items()}


@pytest.mark.parametrize("title", PROGRAMS)
def test_serial_passes_need_no_barriers(title: str) -> None:
    program, expected = PROGRAMS[title]
    with settings.override(force_serial_dispatch=True):
        assert program(Run(device("shuffled:1", "stage"), auto_barrier=False)) == expected()


@pytest.mark.parametrize("way", WAYS, ids=name)
@pytest.mark.parametrize("title", PROGRAMS)
def test_checked_mode_finds_nothing_to_complain_about(title: str, way: Run) -> None:
    program, expected = PROGRAMS[title]
    assert program(replace(way, device=device("shuffled:2", "stage", True), made=[])) == expected()


@pytest.mark.parametrize("title", PROGRAMS)
def test_checked_mode_catches_the_missing_tracker(title: str) -> None:
    """The proof that the silence above means something: without barriers of either kind each program is caught."""
    program, _ = PROGRAMS[title]
    with pytest.raises(CommandBufferError, match=r"missing barrier \((RAW|WAR|WAW)\)") as caught:
        program(Run(device("ordered", "stage", True), auto_barrier=False))
    assert isinstance(caught.value.__cause__, MissingBarrier)


@pytest.mark.parametrize(("title", "automatic", "by_hand"), [("chain", 20, 20), ("slices", 2, 3), ("in_place", 9, 10)])
def test_automatic_barriers_are_those_that_are_needed(title: str, automatic: int, by_hand: int) -> None:
    counts = []
    for auto in (True, False):
        run = Run(device("ordered", "stage"), auto_barrier=auto, by_hand=not auto)
        PROGRAMS[title][0](run)
        counts.append(len(run.made[0].barriers))
    assert counts == [automatic, by_hand]
