"""Kernel parameters, bindings and the language around them."""

from __future__ import annotations

from .conformance import batch as batches
from .conformance import (
    binding_table,
    constant_table,
    function_table,
    habit_table,
    kernel_table,
    language_table,
    member_table,
    memory_table,
    name_table,
    padding_table,
)
from .conformance import program as programs


@programs.parametrised(kernel_table.all_programs())
def test_builtin_parameter(program: programs.Program, result: str) -> None:
    programs.verify(program, result)


@programs.parametrised(binding_table.all_programs())
def test_binding(program: programs.Program, result: str) -> None:
    programs.verify(program, result)


@programs.parametrised(constant_table.all_programs())
def test_function_constant(program: programs.Program, result: str) -> None:
    programs.verify(program, result)


@programs.parametrised(name_table.all_programs())
def test_name(program: programs.Program, result: str) -> None:
    programs.verify(program, result)


@batches.parametrised(language_table.all_batches())
def test_language(batch: batches.Batch, index: int) -> None:
    batches.verify(batch, index)


@programs.parametrised(memory_table.all_programs())
def test_memory(program: programs.Program, result: str) -> None:
    programs.verify(program, result)


@programs.parametrised(member_table.all_programs())
def test_member_function(program: programs.Program, result: str) -> None:
    programs.verify(program, result)


@batches.parametrised(habit_table.all_batches())
def test_habit(batch: batches.Batch, index: int) -> None:
    batches.verify(batch, index)


@programs.parametrised(habit_table.all_programs())
def test_habit_of_declarations(program: programs.Program, result: str) -> None:
    programs.verify(program, result)


@batches.parametrised(function_table.all_batches())
def test_function_as_argument(batch: batches.Batch, index: int) -> None:
    batches.verify(batch, index)


@programs.parametrised(function_table.all_programs())
def test_waiting_function_as_argument(program: programs.Program, result: str) -> None:
    programs.verify(program, result)


@programs.parametrised(padding_table.all_programs())
def test_padding(program: programs.Program, result: str) -> None:
    programs.verify(program, result)
