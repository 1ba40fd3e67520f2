"""The end of a struct behind its last member, which Metal has as a part of it.

Metal's vectors are plain types and ours are classes, so that C++ would let derived classes begin there, and leave those
bytes out of assignments. Bit-fields without a name occupy them.
"""

from __future__ import annotations

from .lexer import close_angle, is_name
from .scopes import Declaration, walk
from .unit import Unit

_UNSUITED = frozenset({"alignas", "__attribute__", "(", "operator", "volatile"})


def fill_tails(unit: Unit) -> None:
    """Ends each struct whose members are of several types by what occupies the rest of it."""
    for declaration in walk(unit.declarations):
        if declaration.kind == "class" and declaration.body and _is_plain(unit, declaration):
            members = _members(unit, declaration)
            if members:
                types = ", ".join(f"decltype({name})" for name in members)
                close = declaration.body[1]
                unit.out[close] = f" SOFT_TAIL({types}) " + unit.out[close]


def _is_plain(unit: Unit, declaration: Declaration) -> bool:
    """Whether it is a struct with a name, perhaps by typedef, and without a base or an alignment of its own."""
    assert declaration.body
    words = unit.tokens.text[declaration.head : declaration.body[0]]
    named = declaration.head < declaration.name < declaration.body[0] or words[0] == "typedef"
    return named and "union" not in words and ":" not in words and _UNSUITED.isdisjoint(words)


def _members(unit: Unit, declaration: Declaration) -> list[str]:
    """The names of its data members in order; none if they are of one type, or of a kind whose size is not known."""
    names: list[str] = []
    types: set[str] = set()
    for child in declaration.children:
        if child.kind == "class" and child.body and (child.name < 0 or unit.tokens.text[child.body[1] + 1] != ";"):
            return []
        words = unit.tokens.text[child.head : child.end]
        if child.kind != "variable" or "static" in words:
            continue
        listed = _declarators(unit, child)
        if not listed:
            return []
        types.add(" ".join(unit.tokens.text[child.head : listed[0]]))
        names += [unit.out[index] for index in listed]
    return names if len(types) > 1 else []


def _declarators(unit: Unit, variable: Declaration) -> list[int]:
    """The names that a member declaration gives; none for bit-fields, functions and what has an alignment."""
    text, match = unit.tokens.text, unit.tokens.match
    names, index, last = [], variable.head, -1
    while index < variable.end:
        token = text[index]
        if token in _UNSUITED or token == ":":
            return []
        if token in ("=", "{"):
            index = _past_value(unit, index, variable.end)
            continue
        if token in (",", ";"):
            names.append(last)
        elif token == "<" and (close := close_angle(unit.tokens, index)) >= 0:
            index = close
        elif token == "[":
            index = match[index]
        elif is_name(token):
            last = index
        index += 1
    return names


def _past_value(unit: Unit, index: int, end: int) -> int:
    text, match = unit.tokens.text, unit.tokens.match
    while index < end and text[index] not in (",", ";"):
        index = match[index] + 1 if text[index] in ("(", "[", "{") else index + 1
    return index
