"""C++ that MSL excludes, in all or only in older language versions."""

from __future__ import annotations

from collections.abc import Container

from .arguments import split
from .closure import reaches
from .lexer import is_name
from .metal_functions import is_metal_function
from .scopes import Declaration, walk
from .unit import Unit

_TAKES_RECURSION = (2, 4)
_TAKES_CPP17 = (4, 0)


def check_left_out(unit: Unit) -> None:
    """Notes an error for each C++ feature that MSL leaves out."""
    for index in unit.tokens.places.get("auto", ()):
        if index + 2 < len(unit.tokens):
            _structured_binding(unit, index)
    for declaration in walk(unit.declarations):
        if declaration.kind == "function" and _is_deduction_guide(unit, declaration):
            unit.error(declaration.name, "class template argument deduction is not supported in Metal")
        if unit.language < _TAKES_CPP17:
            _deduced_parameters(unit, declaration)
    if unit.language < _TAKES_RECURSION:
        _recursion(unit)


def _structured_binding(unit: Unit, index: int) -> None:
    text = unit.tokens.text
    after = index + 1
    while text[after] in ("const", "&", "&&", "thread", "device", "constant", "threadgroup"):
        after += 1
    if text[after] == "[" and is_name(text[after + 1]) and text[unit.tokens.match[after] - 1] != "]":
        unit.error(after, "structured bindings are not supported in Metal")


def _deduced_parameters(unit: Unit, declaration: Declaration) -> None:
    for index in range(declaration.start, declaration.head):
        if unit.tokens.text[index] == "auto":
            unit.error(index, "'auto' is not allowed in a template parameter: C++17 came with Metal 4.0")


def _is_deduction_guide(unit: Unit, declaration: Declaration) -> bool:
    if declaration.body or declaration.in_class or declaration.head != declaration.name or not declaration.parameters:
        return False
    return unit.tokens.text[declaration.parameters[1] + 1 : declaration.parameters[1] + 2] == ["->"]


def _recursion(unit: Unit) -> None:
    """Functions that come back to themselves. A name with overloads or template parameters may stand for another."""
    text = unit.tokens.text
    functions: dict[str, list[Declaration]] = {}
    for declaration in walk(unit.declarations):
        if declaration.kind == "function" and declaration.name >= 0:
            functions.setdefault(text[declaration.name], []).append(declaration)
    alone = {
        name: declared
        for name, declared in functions.items()
        if _is_one(unit, declared) and not is_metal_function(name)
    }
    calls = {name: _calls(unit, declared, alone.keys()) for name, declared in alone.items()}
    for name in _on_a_circle(calls):
        back = next(index for called, index in calls[name].items() if reaches(calls, called, name))
        unit.error(back, f"recursive call of '{name}': Metal has recursion from version 2.4 on")


def _is_one(unit: Unit, declared: list[Declaration]) -> bool:
    """Whether these declare one plain function: at most one body, and prototypes with as many parameters."""
    plain = all(d.head == d.start and not d.in_class and d.parameters for d in declared)
    if not plain or sum(bool(d.body) for d in declared) != 1:
        return False
    return len({len(split(unit, *d.parameters)) for d in declared if d.parameters}) == 1


def _calls(unit: Unit, declared: list[Declaration], names: Container[str]) -> dict[str, int]:
    """The functions that a body calls, each with the place of a call."""
    text = unit.tokens.text
    body = next(d.body for d in declared if d.body)
    places = reversed(range(*body))
    return {text[i]: i for i in places if text[i] in names and text[i + 1] == "(" and not _is_declared(text, i)}


def _is_declared(text: list[str], index: int) -> bool:
    """Whether a name with parentheses is a variable's, or another object's function."""
    before = text[index - 1]
    return before in (".", "->", "::", ">") or (is_name(before) and before not in ("return", "else", "do", "case"))


def _on_a_circle(calls: dict[str, dict[str, int]]) -> list[str]:
    return [name for name, called in calls.items() if any(reaches(calls, other, name) for other in called)]
