"""Checks of function pointers that could hold any address: a kernel may call only functions of its source."""

from __future__ import annotations

from .function_arguments import named_pointers, template_headers, uses_of_aliases
from .lexer import is_name
from .unit import Unit

_SINCE = (2, 3)
_MESSAGE = "pointers to functions are supported as parameters and variables with a value only, from version 2.3 on"


def check_function_pointers(unit: Unit) -> None:
    """Notes an error for each pointer or reference to a function, and to a member, that could hold any address."""
    text = unit.tokens.text
    allowed = template_headers(unit)
    if unit.language >= _SINCE:
        allowed = allowed.union(named_pointers(unit), uses_of_aliases(unit))
    aliases: set[str] = set()
    members = [index for index in unit.tokens.places.get("::", ()) if text[index + 1 : index + 2] == ["*"]]
    for index in (*members, *unit.tokens.places_of((".*", "->*"))):
        unit.error(index, "pointers to members are not supported in Metal")
    for index in unit.function_pointers:
        if index not in allowed:
            if name := _alias(text, index):
                aliases.add(name)
            else:
                unit.error(index, _MESSAGE)
    for index in unit.tokens.places_of(aliases):
        if index not in allowed and not _is_declared(text, index):
            unit.error(index, _MESSAGE)


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
