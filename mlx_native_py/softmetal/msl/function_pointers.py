"""Pointers to functions, which Metal has as template arguments only: a kernel calls what its source defines."""

from __future__ import annotations

from .lexer import close_angle, is_name
from .unit import Unit

_MESSAGE = "pointers to functions are not supported in Metal, other than as template parameters"
_NOT_A_TYPE = frozenset({"if", "while", "for", "switch", "return", "sizeof", "decltype", "case", "and", "or", "not"})


def check_function_pointers(unit: Unit) -> None:
    """Notes an error for each pointer or reference to a function, and to a member, that could hold any address."""
    text = unit.tokens.text
    allowed = _template_parameters(unit)
    aliases: set[str] = set()
    for index, token in enumerate(text):
        if token in (".*", "->*") or (token == "::" and text[index + 1 : index + 2] == ["*"]):
            unit.error(index, "pointers to members are not supported in Metal")
        elif token in ("*", "&") and _is_function_pointer(text, index) and index not in allowed:
            if name := _alias(text, index):
                aliases.add(name)
            else:
                unit.error(index, _MESSAGE)
    for index, token in enumerate(text):
        if token in aliases and index not in allowed and not _is_declared(text, index):
            unit.error(index, _MESSAGE)


def _template_parameters(unit: Unit) -> set[int]:
    text = unit.tokens.text
    numbers: set[int] = set()
    for index, token in enumerate(text[:-1]):
        if token == "template" and text[index + 1] == "<":
            numbers.update(range(index, max(close_angle(unit.tokens, index + 1), index)))
    return numbers


def _is_function_pointer(text: list[str], index: int) -> bool:
    """Whether `*` stands in `type (*name)(`."""
    close = index + 1
    while close < len(text) and (is_name(text[close]) or text[close] == "::"):
        close += 1
    if index < 2 or text[index - 1] != "(" or text[close : close + 2] != [")", "("]:
        return False
    before = text[index - 2]
    return (is_name(before) and before not in _NOT_A_TYPE) or before in (">", "*", "&")


def _alias(text: list[str], index: int) -> str:
    """The name that a `using` or `typedef` gives to the type, or nothing."""
    start = index
    while start and text[start - 1] not in (";", "{", "}"):
        start -= 1
    words = text[start:index]
    if "typedef" in words and is_name(text[index + 1]):
        return text[index + 1]
    if "using" in words and "=" in words:
        return words[words.index("using") + 1]
    return ""


def _is_declared(text: list[str], index: int) -> bool:
    return text[index - 1] == "using" or text[index - 2 : index] == ["(", "*"]
