"""Multi-index subscripts, as for tensors: `t[i, j]`."""

from __future__ import annotations

from .attributes import is_attribute
from .lexer import close_angle, is_name
from .unit import Unit

# What may stand before the bracket of a lambda or of a structured binding, though it looks like a name.
_NOT_OPERANDS = frozenset({"auto", "return", "case", "else", "do", "const", "constexpr", "throw", "sizeof"})


def pack_subscripts(unit: Unit) -> None:
    """Makes one argument of several indices; the dialect would take the comma for an operator."""
    text, match = unit.tokens.text, unit.tokens.match
    for index in unit.tokens.places.get("[", ()):
        if index and unit.out[index] and _is_operand(text[index - 1]):
            if not is_attribute(unit.tokens, index) and _has_comma(unit, index):
                unit.out[index] += "soft::subscript("
                unit.out[match[index]] = ")" + unit.out[match[index]]


def _is_operand(token: str) -> bool:
    return token in (")", "]") or (is_name(token) and token not in _NOT_OPERANDS)


def _has_comma(unit: Unit, opened: int) -> bool:
    text, match = unit.tokens.text, unit.tokens.match
    index = opened + 1
    while index < match[opened]:
        if text[index] == ",":
            return True
        if text[index] in ("(", "[", "{"):
            index = match[index]
        elif text[index] == "<" and (close := close_angle(unit.tokens, index)) >= 0:
            index = close
        index += 1
    return False
