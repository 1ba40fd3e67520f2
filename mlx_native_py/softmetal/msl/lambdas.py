"""The lambdas of a source: their names, parameters, results and bodies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .lexer import is_name
from .unit import Unit

_NOT_A_SUBSCRIPT = frozenset({"return", "case", "else", "do"})


@dataclass(frozen=True)
class Lambda:
    """One lambda; parameters and body are the tokens of their brackets."""

    name: str  # of the variable that it initializes; empty if there is none
    parameters: tuple[int, int] | None
    result: list[str]  # the type behind `->`
    body: tuple[int, int]


def lambdas(unit: Unit) -> Iterator[Lambda]:
    """All lambdas in the order of the source, outer ones first."""
    text, match = unit.tokens.text, unit.tokens.match
    for index in unit.tokens.places.get("[", ()):
        before = text[index - 1]
        if (is_name(before) and before not in _NOT_A_SUBSCRIPT) or before in ("]", ")", "[") or text[index + 1] == "[":
            continue
        at, parameters = match[index] + 1, None
        if text[at : at + 1] == ["("]:
            parameters, at = (at, match[at]), match[at] + 1
        start = at
        while at < len(text) and text[at] not in ("{", ";", ")", ","):
            at += 1
        if text[at : at + 1] == ["{"]:
            words = text[start:at]
            result = words[words.index("->") + 1 :] if "->" in words else []
            yield Lambda(text[index - 2] if before == "=" else "", parameters, result, (at, match[at]))
