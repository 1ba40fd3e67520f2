"""Variables declared as pointers or references to device and constant memory."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from .arguments import declared_name, split
from .lexer import is_name
from .scopes import Declaration, walk
from .unit import Unit

SPACES = ("device", "constant", "threadgroup", "thread")
_BEHIND_A_NAME = frozenset({";", "=", ",", ")", "(", "{"})
_NO_DECLARATION = frozenset({"}", ":", ">", "?"})
# Words that stand before a name that is used, not declared.
_BEFORE_A_USE = frozenset({"return", "else", "do", "case", "sizeof", "and", "or", "not"})
# What stands before a name, what the name is, and what comes behind it.
_DEVICE = {
    "*": frozenset({"device*", "device*+", "device*-", "&device*[", "&device&"}),
    "&": frozenset({"device*[", "*device*", "device&"}),
}


@dataclass(frozen=True)
class PointerNames:
    """The kind of each variable and member, such as "device*" or "constant&"; ambiguous ones are omitted."""

    variables: dict[str, str]
    members: dict[str, str]

    def is_device(self, words: list[str], mark: str) -> bool:
        """Whether an expression is surely a pointer to device memory, for "*", or something in it, for "&"."""
        while words[:1] == ["("] and _closing(words) == len(words) - 1:
            words = words[1:-1]
        prefix = words[0] if words and words[0] in ("&", "*") else ""
        bare = words[1:] if prefix else words
        if not bare or not is_name(bare[0]):
            return False
        known, last = self.variables, 0
        while bare[last + 1 : last + 2] in (["."], ["->"]) and last + 2 < len(bare):
            known, last = self.members, last + 2
        rest = bare[last + 1 :]
        if {".", "->", "?"} & set(rest):
            return False
        form = prefix + known.get(bare[last], "") + (rest[0] if rest else "")
        return form in _DEVICE[mark]


def pointed(words: list[str]) -> str:
    """The space of a declaration of one pointer or reference, with its mark; empty for any other."""
    marks = [word for word in words if word in ("*", "&")]
    spaces = [word for word in words if word in SPACES]
    return spaces[0] + marks[0] if len(marks) == len(spaces) == 1 and "<" not in words else ""


def member_names(unit: Unit) -> dict[str, str]:
    """The members of all classes that are pointers or references."""
    text = unit.tokens.text
    names: dict[str, set[str]] = {}
    for parent in walk(unit.declarations):
        for member in parent.children if parent.kind == "class" else ():
            if member.kind == "variable" and member.name >= 0:
                names.setdefault(text[member.name], set()).add(pointed(text[member.head : member.name]))
    return _settled(names)


def variable_names(unit: Unit, function: Declaration, spaces: list[int]) -> dict[str, str]:
    """The parameters and local variables of a function that are pointers or references.

    `spaces` are the places in its body where an address space is written.
    """
    text = unit.tokens.text
    names: dict[str, set[str]] = {}
    assert function.parameters
    for start, end in split(unit, *function.parameters):
        if (name := declared_name(unit, start, end)) >= 0:
            names.setdefault(text[name], set()).add(pointed(text[start:name]))
    for index in spaces:
        end = index
        while text[end] not in _BEHIND_A_NAME and text[end] not in _NO_DECLARATION:
            end += 1
        if is_name(text[end - 1]) and text[end] in _BEHIND_A_NAME:
            names.setdefault(text[end - 1], set()).add(pointed(text[index : end - 1]))
    assert function.body
    for place in between(unit.tokens.places_of(names), function.body):
        before = text[place - 1]
        if is_name(before) and before not in _BEFORE_A_USE and before != "const":
            names[text[place]].add("")  # declared again, by `auto` or another type
    return _settled(names)


def between(places: list[int], body: tuple[int, int]) -> list[int]:
    """Those of some sorted places that lie in a function's body."""
    return places[bisect_left(places, body[0]) : bisect_left(places, body[1])]


def _settled(names: dict[str, set[str]]) -> dict[str, str]:
    return {name: next(iter(spaces)) for name, spaces in names.items() if len(spaces) == 1}


def _closing(words: list[str]) -> int:
    """The place of the parenthesis that closes the first of `words`."""
    depth = 0
    for place, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0:
            return place
    return -1
