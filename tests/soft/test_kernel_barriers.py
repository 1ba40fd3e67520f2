"""Each barrier of the shipped kernels, deleted alone: checked mode misses it in a conformance case."""

from __future__ import annotations

import pytest
from ops.cases import CASES

from .kernel_mutants import Place, Use, flagged, places, users

pytestmark = pytest.mark.soft
PLACES = places()
TRIED = 30
"""Cases of a family that look for a barrier."""
USUAL = {"hadamard.metal": "hadamard_transform", "layout.metal": "transpose_2d", "moe.metal": "moe_gate"}
"""Files of the normal run with an op each, whose kernels are soon compiled."""
MOST_SURVIVORS = 0.05
SURVIVORS = {
    ("sampling.metal", "}", "if (team.thread_number() == 0) {"): "atomic on both sides is no race; the token is wrong",
    ("attention_prefill.metal", "simdgroup_load(factors, diagonal, ROWS);", "#pragma clang loop unroll(full)"): (
        "lanes meet at the matrix product behind it before the memory is written again"
    ),
}
"""Barriers of which checked mode says nothing, by the lines around them, and why."""


def _lines(place: Place) -> tuple[str, str, str]:
    return place.file, place.before.rstrip().splitlines()[-1].strip(), place.after.splitlines()[1].strip()


def test_few_survive() -> None:
    known = [_lines(place) for place in PLACES]
    assert [known.count(lines) for lines in SURVIVORS] == [1] * len(SURVIVORS)
    assert len(SURVIVORS) <= MOST_SURVIVORS * len(PLACES)


@pytest.mark.parametrize("place", [each for each in PLACES if each.file in USUAL], ids=lambda place: place.id)
def test_a_deleted_barrier_is_missed(place: Place) -> None:
    assert flagged(place, [("cpu", case) for case in CASES if case.op == USUAL[place.file] and not case.long])


@pytest.fixture(scope="module")
def uses() -> dict[str, list[Use]]:
    return users([case for case in CASES if not case.long])


@pytest.mark.full
@pytest.mark.parametrize("place", [each for each in PLACES if each.file not in USUAL], ids=lambda place: place.id)
def test_each_deleted_barrier_is_missed(place: Place, uses: dict[str, list[Use]]) -> None:
    found = next(filter(None, (flagged(place, uses[family][:TRIED]) for family in place.families)), "")
    print(place.id, found)
    assert bool(found) is (_lines(place) not in SURVIVORS)
