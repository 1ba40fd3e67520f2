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
# The expressions that are pointers to device memory, and those that are something in it: what stands before a name, the
# kind of the name, and what comes behind it.
_DEVICE = {
    "*": {("", "device*", ""), ("", "device*", "+"), ("", "device*", "-"), ("&", "device*", "["), ("&", "device&", "")},
    "&": {("", "device*", "["), ("*", "device*", ""), ("", "device&", "")},
}


@dataclass(frozen=True)
class PointerNames:
    """The kind of each variable, member and function's result, such as "device*" or "constant&"; ambiguous ones are
    omitted."""

    variables: dict[str, str]
    members: dict[str, str]
    results: dict[str, str]

    def is_device(self, words: list[str], mark: str) -> bool:
        """Whether an expression is surely a pointer to device memory, for "*", or something in it, for "&"."""
        words = _unwrapped(words)
        if branches := _branches(words):
            # Pointers of both kinds are no choice that Metal allows.
            return (any if mark == "*" else all)(self.is_device(branch, mark) for branch in branches)
        prefix = words[0] if words and words[0] in ("&", "*") else ""
        kind, rest = self._kind(words[1:] if prefix else words)
        behind = rest[0] if rest else ""
        return not {".", "->", "?"} & set(rest) and (prefix, kind, behind) in _DEVICE[mark]

    def _kind(self, words: list[str]) -> tuple[str, list[str]]:
        """The kind of the variable, member or function's result that an expression begins with, and the rest of it."""
        if not words or not is_name(words[0]):
            return "", words
        known, last = self.variables, 0
        while words[last + 1 : last + 2] in (["."], ["->"]) and last + 2 < len(words):
            known, last = self.members, last + 2
        rest = words[last + 1 :]
        while rest[:1] == ["::"] and len(rest) > 1:
            known, last, rest = {}, last + 2, rest[2:]
        if rest[:1] == ["("]:
            known, rest = self.results, rest[_closing(rest) + 1 :]
        return known.get(words[last], ""), rest


def result_names(unit: Unit, functions: list[Declaration]) -> dict[str, str]:
    """The functions whose result is a pointer or reference; one that a lambda may hide is not among them."""
    text = unit.tokens.text
    names: dict[str, set[str]] = {}
    for function in functions:
        names.setdefault(text[function.name], set()).add(pointed(text[function.head : function.name]))
    for index in unit.tokens.places.get("auto", ()):
        names.pop(text[index + 1], None)
    return _settled(names)


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


def constant_members(unit: Unit) -> dict[str, dict[int, str]]:
    """By class, the places and marks of members in constant memory, where a list in braces sets one after the other."""
    text = unit.tokens.text
    found: dict[str, list[dict[int, str]]] = {}
    for parent in walk(unit.declarations):
        if parent.kind == "class" and parent.name >= 0:
            found.setdefault(text[parent.name], []).append(_constant_places(unit, parent))
    return {name: every[0] for name, every in found.items() if len(every) == 1 and every[0]}


def _constant_places(unit: Unit, parent: Declaration) -> dict[int, str]:
    text = unit.tokens.text
    variables = [member for member in parent.children if member.kind == "variable"]
    words = [word for member in variables for word in text[member.start : member.end]]
    made = any(text[member.name] == text[parent.name] for member in parent.children if member.kind == "function")
    if not variables or made or {"static", "[", ","} & set(words) or text[parent.name - 1] == "union":
        return {}
    if ":" in text[parent.name : parent.children[0].start]:
        return {}  # the members of a base come first
    kinds = [pointed(text[member.head : member.name]) for member in variables]
    return {place: kind[-1] for place, kind in enumerate(kinds) if kind in ("constant*", "constant&")}


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
    places = unit.tokens.places
    for place in [place for name in names for place in between(places.get(name, []), function.body)]:
        before = text[place - 1]
        if is_name(before) and before not in _BEFORE_A_USE and before != "const":
            names[text[place]].add("")  # declared again, by `auto` or another type
    return _settled(names)


def between(places: list[int], body: tuple[int, int]) -> list[int]:
    """Those of some sorted places that lie in a function's body."""
    return places[bisect_left(places, body[0]) : bisect_left(places, body[1])]


def _settled(names: dict[str, set[str]]) -> dict[str, str]:
    return {name: next(iter(spaces)) for name, spaces in names.items() if len(spaces) == 1}


def _unwrapped(words: list[str]) -> list[str]:
    """An expression without the parentheses around it."""
    while words[:1] == ["("] and _closing(words) == len(words) - 1:
        words = words[1:-1]
    return words


def _branches(words: list[str]) -> list[list[str]]:
    """What is behind the `?` and the `:` of a conditional expression; nothing for any other."""
    depth, pending, asked = 0, 0, -1
    for place, word in enumerate(words):
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if depth == 0 and word == "?":
            asked = place if asked < 0 else asked
            pending += 1
        elif depth == 0 and word == ":" and pending:
            pending -= 1
            if not pending:
                return [words[asked + 1 : place], words[place + 1 :]]
    return []


def _closing(words: list[str]) -> int:
    """The place of the parenthesis that closes the first of `words`."""
    depth = 0
    for place, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0:
            return place
    return -1
