"""Operands of `?:`, which Metal takes from any address space and OpenCL only from one."""

from __future__ import annotations

from .lexer import close_angle, is_name
from .unit import Unit

_ENDS = frozenset({",", ";", ")", "]", "}", ":"})
_WRITES = frozenset({".", "->", "[", "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"})


def unify_operands(unit: Unit) -> None:
    """Lets objects on both sides of a colon become values, except where the result is used as a place."""
    text = unit.tokens.text
    for index, token in enumerate(text):
        if token != "?":
            continue
        colon = _colon(unit, index + 1)
        if colon < 0:
            continue
        end = _operand_end(unit, colon + 1)
        if end < 0 or _is_place(unit, index, end):
            continue
        _unify(unit, (index + 1, colon), (colon + 1, end))


def _unify(unit: Unit, first: tuple[int, int], second: tuple[int, int]) -> None:
    for (start, stop), (other, other_stop) in ((first, second), (second, first)):
        if _is_integer(unit, start, stop) and _may_be_object(unit, other, other_stop):
            unit.out[start] = (
                f"soft::like<decltype(({' '.join(_translated(unit, other, other_stop))}))>({unit.out[start]}"
            )
            unit.out[stop - 1] += ")"
    for start, stop in (first, second):
        if _may_be_object(unit, start, stop):
            unit.out[start] = f"(SOFT_VALUE_OF {unit.out[start]}"
            unit.out[stop - 1] += ")"


def _translated(unit: Unit, start: int, end: int) -> list[str]:
    return [word for word in unit.out[start:end] if word]


def _is_integer(unit: Unit, start: int, end: int) -> bool:
    """Whether an operand is a whole number as it stands, perhaps with a sign."""
    words = unit.tokens.text[start:end]
    digits = words[1:] if words[:1] == ["-"] else words
    return len(digits) == 1 and digits[0].isdigit()


def _colon(unit: Unit, index: int) -> int:
    """The colon that belongs to the question mark before `index`."""
    text, match = unit.tokens.text, unit.tokens.match
    open_questions = 1
    while index < len(text):
        token = text[index]
        if token in ("(", "[", "{"):
            index = match[index]
        elif token == "?":
            open_questions += 1
        elif token == ":":
            open_questions -= 1
            if not open_questions:
                return index
        elif token in (";", ")", "]", "}"):
            return -1
        index += 1
    return -1


def _operand_end(unit: Unit, index: int) -> int:
    """Where the last operand ends; -1 if that may be at the `>` of a template bracket."""
    text, match = unit.tokens.text, unit.tokens.match
    open_questions = 0
    while index < len(text):
        token = text[index]
        if token in ("(", "[", "{"):
            index = match[index]
        elif token == "?":
            open_questions += 1
        elif token == ":" and open_questions:
            open_questions -= 1
        elif token in _ENDS:
            return index
        elif token == "<" and is_name(text[index - 1]) and (close := _template_end(unit, index)) >= 0:
            index = close
        elif token in (">", ">>"):
            return -1
        index += 1
    return -1


def _template_end(unit: Unit, opened: int) -> int:
    """The end of the template arguments of something that is then called, made or looked into; else -1."""
    close = close_angle(unit.tokens, opened)
    return close if close >= 0 and unit.tokens.text[close + 1] in ("(", "{", "::") else -1


def _is_place(unit: Unit, question: int, end: int) -> bool:
    """Whether the whole conditional stands in parentheses that are written to, or whose address is taken."""
    text, match = unit.tokens.text, unit.tokens.match
    if text[end] != ")":
        return False
    opened = match[end]
    following = text[end + 1] if end + 1 < len(text) else ""
    called = is_name(text[opened - 1]) and text[opened - 1] not in ("return", "case")
    return not called and (following in _WRITES or text[opened - 1] == "&")


def _may_be_object(unit: Unit, start: int, end: int) -> bool:
    words = unit.tokens.text[start:end]
    if "{" in words:
        return False
    return any(is_name(word) and word not in ("true", "false", "nullptr") for word in words)
