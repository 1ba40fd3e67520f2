"""String literals, which Metal has in `constant` memory and OpenCL in a space of its own."""

from __future__ import annotations

from .arguments import split
from .scopes import walk
from .unit import Unit

_MEMORY = {"constant", "char", "*"}


def place_strings(unit: Unit) -> None:
    """Lets literals be pointers to `constant` characters: of variables, and of parameters of the source's functions."""
    text = unit.tokens.text
    literals = [index for index, token in enumerate(text) if token[0] == '"' and text[index - 1][0] != '"']
    if not literals:
        return
    takers = _takers(unit)
    for index in literals:
        if _begins_pointer(unit, index) or _argument(unit, index) in takers:
            last = index
            while last + 1 < len(text) and text[last + 1][0] == '"':  # pieces of one literal
                last += 1
            unit.out[index] = f"soft::text({unit.out[index]}"
            unit.out[last] += ")"


def _takers(unit: Unit) -> set[tuple[str, int]]:
    """The names of functions with the positions of such parameters."""
    text = unit.tokens.text
    functions = [d for d in walk(unit.declarations) if d.kind == "function" and d.parameters]
    return {
        (text[declaration.name], position)
        for declaration in functions
        if declaration.parameters
        for position, (start, end) in enumerate(split(unit, *declaration.parameters))
        if _MEMORY <= set(text[start:end])
    }


def _begins_pointer(unit: Unit, index: int) -> bool:
    """Whether `constant char *name =` stands before it."""
    text = unit.tokens.text
    start = index
    while start and text[start - 1] not in (";", "{", "}", "(", ")", ","):
        start -= 1
    words = text[start:index]
    return words[-1:] == ["="] and _MEMORY <= set(words) and "[" not in words


def _argument(unit: Unit, index: int) -> tuple[str, int]:
    """The call that it is an argument of, and its position there."""
    text, match = unit.tokens.text, unit.tokens.match
    opened = index - 1
    while opened > 0 and text[opened] not in ("(", "{", ";", "["):
        opened = match[opened] - 1 if text[opened] in (")", "]", "}") else opened - 1
    if opened <= 0 or text[opened] != "(":
        return "", 0
    arguments = split(unit, opened, match[opened])
    return text[opened - 1], next(n for n, (start, end) in enumerate(arguments) if start <= index < end)
