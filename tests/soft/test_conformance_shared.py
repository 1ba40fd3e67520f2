"""Atomics and simdgroup matrices."""

from __future__ import annotations

from .conformance import atomic_table, matrix_table
from .conformance.program import Program, parametrised, verify


@parametrised(atomic_table.all_programs())
def test_atomics(program: Program, result: str) -> None:
    verify(program, result)


@parametrised(matrix_table.all_programs())
def test_simdgroup_matrix(program: Program, result: str) -> None:
    verify(program, result)
