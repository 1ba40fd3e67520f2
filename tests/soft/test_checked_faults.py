"""Each faulty program is caught with the right report, and is silent once put right."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from mlx_native_py.softmetal.checked import CheckedError

from .checked_arrays import ARRAYS_OUTSIDE
from .checked_bounds import BOUNDS_LEFT
from .checked_divergence import BARRIERS_MISSED
from .checked_driver import submit
from .checked_outside import LOOPS_OUTSIDE, MATRICES_OUTSIDE, OUTSIDE, THREADGROUP_OUTSIDE
from .checked_programs import Program
from .checked_races import DEVICE_RACES, GROUP_RACES, MATRIX_RACES, THREADGROUP_RACES
from .checked_threadgroup import POINTERS_BETWEEN_VARIABLES

_ERROR, _COMPLETED = 5, 4
_OUTSIDE = [
    *OUTSIDE,
    *LOOPS_OUTSIDE,
    *THREADGROUP_OUTSIDE,
    *ARRAYS_OUTSIDE,
    *BOUNDS_LEFT,
    *MATRICES_OUTSIDE,
    *POINTERS_BETWEEN_VARIABLES,
]
PROGRAMS = [*_OUTSIDE, *THREADGROUP_RACES, *DEVICE_RACES, *GROUP_RACES, *MATRIX_RACES, *BARRIERS_MISSED]


def _caught(program: Program) -> tuple[CheckedError, Any]:
    commands = submit(program, program.source)
    with pytest.raises(CheckedError) as caught:
        commands.waitUntilCompleted()
    return caught.value, commands


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_faults_are_caught(program: Program) -> None:
    error, commands = _caught(program)
    assert type(error) is program.error, str(error)
    message = str(error)
    line = f"{program.line}\n" if program.line else ""
    for text in ("kernel 'k'", *program.text, line):
        assert text in message, f"{text!r} is not in {message!r}"
    for path, value in program.fields.items():
        assert reduce(getattr, path.split("."), error) == value, path
    assert commands.status() == _ERROR
    assert message in commands.error().localizedDescription()


@pytest.mark.full  # the conformance suite shows the same in checked mode
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.fix[0]], ids=lambda program: program.name)
def test_fixed_programs_are_silent(program: Program) -> None:
    commands = submit(program, program.fixed)
    commands.waitUntilCompleted()
    assert commands.error() is None
    assert commands.status() == _COMPLETED


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 40
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
