"""What the shipped kernels spell out because Apple's compiler would choose otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

KERNELS = Path(__file__).parent.parent / "kernels"
SOURCES = sorted([*KERNELS.glob("*.metal"), *KERNELS.glob("shared/*.h")])

_MATRICES = re.compile(r"\bsimdgroup_(?:float8x8|half8x8|bfloat8x8|matrix<[^>]*>)\s+([^;()]*\[[^;]*);")
_POINTERS = re.compile(r"\bsimdgroup_(?:float8x8|half8x8|bfloat8x8|matrix<[^>]*>) \*(\w+)")
# "full" waits for the values of function constants; a plain `unroll` would not.
_UNROLL = "#pragma clang loop unroll(full)\n"
_LOOP = re.compile(
    rf"(?P<pragma>{re.escape(_UNROLL)})?[ \t]*for \((?:const )?(?:u?int|u?short|u?long|size_t|auto) (?P<index>\w+) = "
    r"[^{;]*;[^;]*;[^)]*\)"
)
_ELEMENTARY = re.compile(r"(?<![\w:])(exp|exp2|exp10|log|log2|log10|pow|powr|sin|cos|tan|sinh|cosh|tanh|rsqrt|sqrt)\(")


def _arrays(function: str) -> set[str]:
    """The names of arrays of simdgroup matrices."""
    declared = {name for result in _MATRICES.findall(function) for name in re.findall(r"(\w+)(?:\[[^]]*\])+", result)}
    return declared | set(_POINTERS.findall(function))


def _body(text: str, start: int) -> str:
    """The statement after a loop's head."""
    end = text.index(";", start)
    brace = text.find("{", start)
    if not 0 <= brace < end:
        return text[start:end]
    depth, end = 1, brace + 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[start:end]


def _rolled(text: str) -> list[str]:
    """The loops that index such an array by their variable and say nothing of unrolling."""
    rolled = []
    for function in text.split("\n}\n"):
        names = "|".join(sorted(_arrays(function)))
        for loop in _LOOP.finditer(function) if names else ():
            indexed = rf"\b(?:{names})(?:\[[^]]*\])*\[[^]]*\b{loop['index']}\b[^]]*\]"
            if not loop["pragma"] and re.search(indexed, _body(function, loop.end())):
                rolled.append(loop[0].strip())
    return rolled


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_loops_over_arrays_of_simdgroup_matrices_are_unrolled(path: Path) -> None:
    """An index that is not a constant would put the matrices into memory."""
    assert _rolled(path.read_text()) == []


def test_a_loop_that_is_not_unrolled_is_seen() -> None:
    loop = "for (uint i = 0; i < 2; ++i)"
    declared = "simdgroup_float8x8 a[2], sums[2][4];\n"
    assert _rolled(f"{declared}  {loop} simdgroup_load(a[i], p);") == [loop]
    assert _rolled(f"{declared}  {loop} {{ f(); g(sums[i][1]); }}") == [loop]
    assert _rolled(f"{declared}#pragma unroll\n  {loop} g(sums[1][i]);") == [loop]
    assert _rolled(f"{declared}{_UNROLL}  {loop} g(sums[1][i]);") == []
    short = "for (short i = 0; i < 2; i += 1)"
    assert _rolled(f"{declared}  {short} g(sums[1][i]);") == [short]
    assert _rolled(f"{declared}  {loop} g(x[i]);") == []


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if "math_mode(safe)" in path.read_text()], ids=lambda p: p.name
)
def test_safe_mathematics_names_the_precise_functions(path: Path) -> None:
    """A math mode says nothing about which variant of a function is meant."""
    text = re.sub(r"//.*", "", path.read_text())
    assert _ELEMENTARY.findall(text) == []
