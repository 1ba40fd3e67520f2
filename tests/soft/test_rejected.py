"""Programs that must not compile, each refused at the right line."""

from __future__ import annotations

import re

import pytest

from .conformance import rejected_language_table as language
from .conformance import rejected_strict_table as strict
from .conformance import rejected_table as table
from .conformance import rejected_texture_table as textures
from .conformance.rejected_table import Refused
from .harness import rejections

ROWS = (
    *table.ADDRESS_SPACES,
    *table.SIGNATURES,
    *table.CONSTANTS,
    *language.LEFT_OUT,
    *language.TYPES,
    *language.SYNTAX,
    *strict.INPUTS,
    *strict.LEFT_OUT,
    *strict.SPACES,
    *strict.BFLOAT,
    *strict.BUILTINS,
    *textures.TEXTURES,
    *strict.ATOMICS,
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_program(row: Refused) -> None:
    errors = rejections(row.text, row.kernel)
    assert errors, "the program was accepted"
    first = errors[0]
    assert first.line == row.line, f"refused at line {first.line}, not {row.line}: {first.text}"
    assert re.search(row.pattern, first.text, re.IGNORECASE), f"unexpected message: {first.text}"


def test_names_are_unique() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) >= 80
