"""Programs that must not compile, each refused at the right line."""

from __future__ import annotations

import re

import pytest

from mlx_native_py import softmetal as Metal

from .conformance import rejected_language_table as language
from .conformance import rejected_neighbour_table as neighbours
from .conformance import rejected_strict_table as strict
from .conformance import rejected_table as table
from .conformance import rejected_texture_table as textures
from .conformance.rejected_table import Refused
from .harness import device, rejections

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
    *neighbours.SPACES,
    *neighbours.INPUTS,
    *neighbours.WORDS,
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_program(row: Refused) -> None:
    errors = rejections(row.text, row.kernel, row.language)
    assert errors, "the program was accepted"
    first = errors[0]
    assert first.line == row.line, f"refused at line {first.line}, not {row.line}: {first.text}"
    assert re.search(row.pattern, first.text, re.IGNORECASE), f"unexpected message: {first.text}"


@pytest.mark.parametrize("name", neighbours.TAKEN)
def test_what_is_near_and_right_is_taken(name: str) -> None:
    assert rejections(f"#include <metal_stdlib>\nusing namespace metal;\n{neighbours.TAKEN[name]}\n") == []


TAKEN_LATER = [row for row in ROWS if row.language < Metal.MTLLanguageVersion3_2]


@pytest.mark.parametrize("row", TAKEN_LATER, ids=lambda row: row.name)
def test_newer_versions_take_it_without_a_word(row: Refused) -> None:
    options = Metal.MTLCompileOptions.alloc().init()
    options.setLanguageVersion_(row.language + 1)
    library, said = device().newLibraryWithSource_options_error_(row.text, options, None)
    assert library is not None and said is None


def test_names_are_unique() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) >= 80
