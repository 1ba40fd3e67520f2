"""Lanes that part ways: simdgroup functions and barriers under divergent control flow."""

from __future__ import annotations

from .conformance import divergence_table
from .conformance.program import Program, parametrised, verify


@parametrised(divergence_table.all_programs())
def test_case(program: Program, result: str) -> None:
    verify(program, result)
