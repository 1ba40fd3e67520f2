"""The address space of `this` and its parts inside member functions."""

from __future__ import annotations

import re

from .arguments import declared_name, split
from .lexer import close_angle, is_name
from .scopes import Declaration, walk
from .spaces import SPACES
from .unit import Unit

_MATH_PRAGMA = re.compile(r"#\s*pragma\s+METAL\s+fp\b")
_BEHIND_A_VARIABLE = frozenset({"=", ";", ",", "[", "{", "(", ":"})
_TYPE_MARKS = frozenset({"::", "*", "&", "<", ">", ">>", ","})
_NO_TYPES = frozenset({"return", "else", "case", "do", "sizeof"})


def speak_of_object(
    unit: Unit, function: Declaration, parent: Declaration, *, spelling: str, space: str, constant: bool
) -> None:
    """Makes `this` and its data members memory of `space`, where `this` itself may be of a wider one.

    OpenCL has no qualifier for device memory alone, and none that temporaries share with variables of a thread.
    """
    text = unit.tokens.text
    if not function.body or space not in ("device", "thread"):
        return
    spoken = space in text[function.head : function.name] or space in text[slice(*function.body)]
    if "static" in text[function.head : function.name] or (
        "constexpr" in text[function.head : function.name] and not spoken
    ):
        return
    parts = _data_members(unit, parent) - _parameters(unit, function)
    parts = {name for name in parts if not _hidden(unit, function, name)}
    inner = {i for child in function.children for i in range(child.start, child.end)}
    changed = False
    for index in range(*function.body):
        if index in inner:
            continue
        if text[index] == "this":
            unit.out[index] = unit.out[index].replace("this", "soft_this")
            changed = True
        elif text[index] in parts and text[index - 1] not in (".", "->", "::"):
            unit.out[index] = unit.out[index].replace(text[index], f"soft_this->{text[index]}", 1)
            changed = True
    if changed:
        pointer = f"{'const ' if constant else ''}{SPACES[space]} {spelling} *"
        _begin(unit, function.body[0], f"{pointer} const soft_this = ({pointer}) this ;")


def _begin(unit: Unit, brace: int, statement: str) -> None:
    """Puts a statement at the start of a body, but behind the math pragmas, which must come first there."""
    first = brace + 1
    while _MATH_PRAGMA.match(unit.tokens.text[first]):
        first += 1
    if first == brace + 1:
        unit.out[brace] += f" {statement}"
    else:
        apart = "\n" if unit.tokens.text[first].startswith("#") else " "
        unit.out[first] = f" {statement}{apart}{unit.out[first]}"


def _parameters(unit: Unit, function: Declaration) -> set[str]:
    assert function.parameters
    names = (declared_name(unit, start, end) for start, end in split(unit, *function.parameters))
    return {unit.tokens.text[name] for name in names if name >= 0}


def _hidden(unit: Unit, function: Declaration, name: str) -> bool:
    """Whether a function has a variable of this name: behind a type, at the start of a statement."""
    text = unit.tokens.text
    assert function.body
    for index in range(*function.body):
        if text[index] == name and text[index + 1] in _BEHIND_A_VARIABLE:
            first = index - 1
            while (is_name(text[first]) and text[first] not in _NO_TYPES) or text[first] in _TYPE_MARKS:
                first -= 1
            before = text[first]
            opens = before in (";", "{", "}") or (before == "(" and text[first - 1] == "for")
            if opens and first < index - 1 and text[index - 1] != ",":
                return True
    return False


def _data_members(unit: Unit, parent: Declaration) -> set[str]:
    """The names of a class's data members, and of those that its bases in the source bring."""
    text = unit.tokens.text
    names = set()
    for member in parent.children:
        if member.kind == "variable" and not {"static", "constexpr"} & set(text[member.start : member.name]):
            names |= _declared(unit, member)
    assert parent.body
    head = text[parent.name + 1 : parent.body[0]]
    for word in head[head.index(":") :] if ":" in head else ():
        for base in walk(unit.declarations):
            if base.kind == "class" and base.name >= 0 and text[base.name] == word and base is not parent:
                names |= _data_members(unit, base)
    return names


def _declared(unit: Unit, variable: Declaration) -> set[str]:
    """The names that one declaration gives, at its commas and its end."""
    text, match = unit.tokens.text, unit.tokens.match
    names, index = set(), variable.head
    while index < variable.end:
        if text[index] in ("(", "[", "{"):
            index = match[index]
        elif text[index] == "<" and (close := close_angle(unit.tokens, index)) >= 0:
            index = close
        elif is_name(text[index]) and text[index + 1] in (",", ";", "[", "=", "{", ":"):
            names.add(text[index])
        index += 1
    return names
