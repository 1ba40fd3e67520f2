"""Compound assignments inside templates, where clang loses properties and conversions."""

from __future__ import annotations

from .lexer import is_name
from .scopes import Declaration
from .unit import Unit

_COMPONENTS = frozenset("xyzwrgba")
_CHANGES = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"})


def open_components(unit: Unit) -> None:
    """Turns `v.x += e` into `soft::place_x(v) += e`, in templates."""
    _open(unit, unit.declarations, in_template=False)


def _open(unit: Unit, declarations: list[Declaration], *, in_template: bool) -> None:
    for declaration in declarations:
        dependent = in_template or declaration.head > declaration.start
        if declaration.kind == "function" and declaration.body and dependent:
            for index in range(*declaration.body):
                if unit.tokens.text[index] in _COMPONENTS:
                    _component(unit, index)
                elif unit.tokens.text[index] in ("+=", "-="):
                    _count(unit, index)
        else:
            _open(unit, declaration.children, in_template=dependent)


def _count(unit: Unit, index: int) -> None:
    """Lets a pointer be moved by an object that stands for a number, which OpenCL's built-in operators do not take."""
    end = index + 1
    while unit.tokens.text[end] not in (";", ",", ")", "]", "}"):
        end = unit.tokens.match[end] + 1 if unit.tokens.text[end] in ("(", "[", "{") else end + 1
    if end == index + 2 and is_name(unit.tokens.text[index + 1]):
        unit.out[index + 1] = f"(SOFT_COUNT_OF {unit.out[index + 1]})"


def _component(unit: Unit, index: int) -> None:
    text = unit.tokens.text
    if text[index - 1] != ".":
        return
    start = _postfix_start(unit, index - 2)
    if start < 0 or (text[index + 1] not in _CHANGES and text[start - 1] not in ("++", "--")):
        return
    unit.out[start] = f"soft::place_{text[index]}({unit.out[start]}"
    unit.out[index - 1] = ")"
    unit.out[index] = ""


def _postfix_start(unit: Unit, index: int) -> int:
    """The first token of the expression that ends at `index`: names, members, subscripts and calls; -1 if unsure."""
    text, match = unit.tokens.text, unit.tokens.match
    while True:
        if text[index] in (")", "]"):
            index = match[index]
            if text[index - 1] in (")", "]") or (is_name(text[index - 1]) and text[index - 1] != "return"):
                index -= 1
                continue
            if text[index] == "[" or text[index - 1] in (">", ">>"):
                return -1
        elif not is_name(text[index]):
            return -1
        if text[index - 1] not in (".", "->", "::"):
            return index
        index -= 2
