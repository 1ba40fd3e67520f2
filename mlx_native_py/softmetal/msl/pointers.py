"""Checks that pointers and references have an address space, as Metal requires."""

from __future__ import annotations

from ..data_types import data_type
from .arguments import split
from .lexer import is_name
from .scopes import Declaration, walk
from .unit import Unit
from .values import template_names

_SPACES = frozenset({"device", "constant", "threadgroup", "thread"})
_SPECIFIERS = frozenset(
    {"const", "volatile", "static", "constexpr", "inline", "restrict", "__restrict", "coherent", *_SPACES}
)
# With one of these in it, a type may bring an address space of its own.
_OPEN = frozenset({"auto", "typename", "decltype", "<", "...", "::", *_SPACES})


def check_pointers(unit: Unit) -> None:
    """Notes an error for each pointer to a plain type that no address space is given for."""
    text = unit.tokens.text
    for index in unit.tokens.places_of(token for token in unit.tokens.places if is_name(token) and data_type(token)):
        if text[index + 1 : index + 2] in (["*"], ["&"]) and text[index - 1] != "::":
            if not _qualified_before(unit, index) and unit.out[index]:
                _refuse(unit, index + 1)
    classes = {text[d.name] for d in walk(unit.declarations) if d.kind == "class" and d.name >= 0}
    _check_parameters(unit, unit.declarations, classes, frozenset())


def _refuse(unit: Unit, index: int) -> None:
    kind = "pointer" if unit.tokens.text[index] == "*" else "reference"
    unit.error(index, f"{kind} type must have explicit address space qualifier")


def _qualified_before(unit: Unit, index: int) -> bool:
    text, match = unit.tokens.text, unit.tokens.match
    index -= 1
    while index >= 0 and (text[index] in _SPECIFIERS or text[index] == ")"):
        if text[index] == ")":
            index = match[index]
            if text[index - 1] != "coherent":
                return False
        if text[index] in _SPACES:
            return True
        index -= 1
    return index >= 0 and text[index] in ("unsigned", "signed") and _qualified_before(unit, index)


def _check_parameters(
    unit: Unit, declarations: list[Declaration], classes: set[str], dependent: frozenset[str]
) -> None:
    """Parameters of functions that point to a class of the program."""
    for declaration in declarations:
        names = dependent
        if declaration.head > declaration.start:
            names |= set(template_names(unit, declaration))
        if declaration.kind == "function" and declaration.parameters:
            for start, end in split(unit, *declaration.parameters):
                _check_parameter(unit, start, end, classes - names)
        _check_parameters(unit, declaration.children, classes, names)


def _check_parameter(unit: Unit, start: int, end: int, classes: set[str]) -> None:
    words = unit.tokens.text[start:end]
    stars = [start + offset for offset, word in enumerate(words) if word in ("*", "&")]
    plain = [word for word in words if word not in _SPECIFIERS]
    if stars and not _OPEN & set(words) and plain and plain[0] in classes:
        _refuse(unit, stars[0])
