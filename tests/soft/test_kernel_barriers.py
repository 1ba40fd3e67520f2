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
FIRST = {"quad_matvec.h": "ggml_matmul_deep"}
"""Files with cases that are tried first, since most others come to an end before their barriers matter."""
MOST_SURVIVORS = 0.05
SURVIVORS = {
    ("sampling.metal", "}", "if (team.thread_number() == 0) {"): "atomic on both sides is no race; the token is wrong",
    ("attention_prefill.metal", "simdgroup_load(factors, diagonal, ROWS);", "#pragma clang loop unroll(full)"): (
        "lanes meet at the matrix product behind it before the memory is written again"
    ),
    ("attention_prefill.metal", "const bool fades = simd_any(fade != 1.0f);", "#pragma clang loop unroll(full)"): (
        "lanes meet at the simdgroup functions before it, after the memory is written"
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


def _tried(place: Place, uses: list[Use]) -> list[Use]:
    name = FIRST.get(place.file, "no case")
    return sorted(uses, key=lambda use: not use[1].id.startswith(name))[:TRIED]


@pytest.mark.full
@pytest.mark.parametrize("place", [each for each in PLACES if each.file not in USUAL], ids=lambda place: place.id)
def test_each_deleted_barrier_is_missed(place: Place, uses: dict[str, list[Use]]) -> None:
    found = next(filter(None, (flagged(place, _tried(place, uses[family])) for family in place.families)), "")
    print(place.id, found)
    assert bool(found) is (_lines(place) not in SURVIVORS)
