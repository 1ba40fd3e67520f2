"""A private variable without a value is reported where its value matters, and nowhere else."""

from __future__ import annotations

import dataclasses
from functools import reduce

import pytest

from mlx_native_py.softmetal.checked import CheckedError

from .checked_bits import BITS_LEGAL, BITS_UNWRITTEN
from .checked_bounds import BOUNDS_LEGAL, MEMBERS
from .checked_constants import CONSTANTS_LEGAL, CONSTANTS_WRITTEN
from .checked_driver import submit
from .checked_exchange import FUNCTIONS_APART, THROUGH_OTHERS, THROUGH_OTHERS_LEGAL
from .checked_outlived import OUTLIVED, OUTLIVED_LEGAL
from .checked_private import LEGAL, PARAMS, PRIVATE_UNWRITTEN, unwritten
from .checked_programs import Program, floats
from .checked_results import MISSING_RESULTS
from .checked_right import right_forms

pytestmark = pytest.mark.soft
ENOUGH = 20
_VALUES = "device const float* v [[buffer(2)]]"
EXCHANGED = unwritten(THROUGH_OTHERS, FUNCTIONS_APART)
UNWRITTEN = [*PRIVATE_UNWRITTEN, *BITS_UNWRITTEN, *EXCHANGED, *MISSING_RESULTS, *OUTLIVED, *CONSTANTS_WRITTEN]
RIGHT = {
    **{name: dataclasses.replace(BITS_UNWRITTEN[0], body=body, before=MEMBERS) for name, body in BOUNDS_LEGAL.items()},
    **{name: dataclasses.replace(BITS_UNWRITTEN[0], body=body) for name, body in BITS_LEGAL.items()},
    **{name: dataclasses.replace(EXCHANGED[0], body=body) for name, body in (LEGAL | THROUGH_OTHERS_LEGAL).items()},
    **{name: dataclasses.replace(OUTLIVED[0], body=body) for name, body in OUTLIVED_LEGAL.items()},
    **{name: dataclasses.replace(CONSTANTS_WRITTEN[0], body=body) for name, body in CONSTANTS_LEGAL.items()},
}


@pytest.mark.parametrize("program", UNWRITTEN, ids=lambda program: program.name)
def test_what_has_no_value_is_told(program: Program) -> None:
    commands = submit(program, program.source)
    with pytest.raises(CheckedError) as caught:
        commands.waitUntilCompleted()
    assert type(caught.value) is program.error, str(caught.value)
    for text in ("kernel 'k'", *program.text):
        assert text in str(caught.value), f"{text!r} is not in {str(caught.value)!r}"
    for path, value in program.fields.items():
        assert reduce(getattr, path.split("."), caught.value) == value, path


@pytest.mark.parametrize("program", UNWRITTEN, ids=lambda program: program.name)
def test_with_a_value_it_is_silent(program: Program) -> None:
    commands = submit(program, program.fixed)
    commands.waitUntilCompleted()
    assert commands.error() is None


@pytest.mark.parametrize("name", RIGHT)
def test_what_does_not_matter_is_silent(name: str) -> None:
    commands = submit(RIGHT[name], RIGHT[name].source)
    commands.waitUntilCompleted()
    assert commands.error() is None


@pytest.mark.parametrize("before, body", list(right_forms()))
def test_unusual_forms_that_are_right_are_silent(before: str, body: str) -> None:
    program = dataclasses.replace(RIGHT["flags"], before=before, body=body, params=f"{PARAMS}, {_VALUES}")
    program = dataclasses.replace(program, args=(*program.args, floats(256)))
    commands = submit(program, program.source)
    commands.waitUntilCompleted()
    assert commands.error() is None


def test_there_are_enough() -> None:
    assert min(len(PRIVATE_UNWRITTEN), len(LEGAL)) >= ENOUGH
