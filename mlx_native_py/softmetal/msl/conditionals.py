"""Operands of `?:`, which Metal accepts from different address spaces and OpenCL does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .lexer import close_angle, is_name
from .unit import Unit

_ENDS = frozenset({",", ";", ")", "]", "}", ":"})
_WRITES = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"})


@dataclass(frozen=True)
class Operand:
    """Tokens from `start` up to `end`; `inner` is a nested conditional, if they are one."""

    start: int
    end: int
    inner: Conditional | None


@dataclass(frozen=True)
class Conditional:
    """The operands around the colon of a `?:`."""

    question: int
    first: Operand
    second: Operand

    def leaves(self) -> Iterator[Operand]:
        """The operands that are no conditionals."""
        for operand in (self.first, self.second):
            if operand.inner:
                yield from operand.inner.leaves()
            else:
                yield operand


def unify_operands(unit: Unit) -> None:
    """Lets objects on both sides of a colon become values, except where the result is used as a place."""
    writer = _ConditionalWriter(unit)
    done = -1
    for index in unit.tokens.places.get("?", ()):
        if index > done:
            tree = _conditional(unit, index)
            if tree and not _is_place(unit, tree.second.end):
                writer.write(tree)
                done = max(_questions(tree))


def _questions(tree: Conditional) -> Iterator[int]:
    yield tree.question
    for operand in (tree.first, tree.second):
        if operand.inner:
            yield from _questions(operand.inner)


class _ConditionalWriter:
    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.before = list(unit.out)

    def write(self, tree: Conditional) -> None:
        """Makes the operands values, the innermost first, so that what is put around them nests."""
        for operand in (tree.first, tree.second):
            if operand.inner:
                self.write(operand.inner)
        model = next((leaf for leaf in tree.leaves() if self._may_be_object(leaf)), None)
        for operand in (tree.first, tree.second):
            if operand.inner or self._may_be_object(operand):
                self._enclose(operand, "(SOFT_VALUE_OF ")
            elif model and self._is_integer(operand):
                spelled = " ".join(filter(None, self.before[model.start : model.end]))
                self._enclose(operand, f"soft::like<decltype(({spelled}))>(")

    def _enclose(self, operand: Operand, opening: str) -> None:
        self.unit.out[operand.start] = opening + self.unit.out[operand.start]
        self.unit.out[operand.end - 1] += ")"

    def _is_integer(self, operand: Operand) -> bool:
        """Whether an operand is a whole number as it stands, perhaps with a sign."""
        words = self.unit.tokens.text[operand.start : operand.end]
        digits = words[1:] if words[:1] == ["-"] else words
        return len(digits) == 1 and digits[0].isdigit()

    def _may_be_object(self, operand: Operand) -> bool:
        words = self.unit.tokens.text[operand.start : operand.end]
        if _has_lambda(words):
            return False
        return any(is_name(word) and word not in ("true", "false", "nullptr") for word in words)


def _has_lambda(words: list[str]) -> bool:
    """Whether a `[` is no subscript. A lambda is of a type of its own, which no other operand can have."""
    return any(
        word == "[" and (not at or not (is_name(words[at - 1]) or words[at - 1] in (")", "]", "}", ">")))
        for at, word in enumerate(words)
    )


def _conditional(unit: Unit, question: int) -> Conditional | None:
    """The conditional of a question mark; None where a `>` may end it as a template argument."""
    first = _operand(unit, question + 1)
    if first is None or unit.tokens.text[first.end] != ":":
        return None
    second = _operand(unit, first.end + 1)
    return Conditional(question, first, second) if second else None


def _operand(unit: Unit, start: int) -> Operand | None:
    text, match = unit.tokens.text, unit.tokens.match
    index = start
    while index < len(text) and text[index] not in _ENDS:
        token = text[index]
        if token == "?":
            inner = _conditional(unit, index)
            return Operand(start, inner.second.end, inner) if inner else None
        if token in ("(", "[", "{"):
            index = match[index]
        elif token == "<" and is_name(text[index - 1]) and (close := _template_end(unit, index)) >= 0:
            index = close
        elif token in (">", ">>") and _may_close(unit, index):
            return None
        index += 1
    return Operand(start, index, None) if start < index < len(text) else None


def _may_close(unit: Unit, index: int) -> bool:
    """Whether a `>` may end template arguments: nothing that can be compared with stands behind it."""
    following = unit.tokens.text[index + 1]
    return following in ("(", "{", "::", ",", ";", ">", ">>", ")", "&", "*") or following == "["


def _template_end(unit: Unit, opened: int) -> int:
    """The end of the template arguments of something that is then called, made or looked into; else -1."""
    close = close_angle(unit.tokens, opened)
    return close if close >= 0 and unit.tokens.text[close + 1] in ("(", "{", "::") else -1


def _is_place(unit: Unit, end: int) -> bool:
    """Whether the whole conditional stands in parentheses and is written to, or its address is taken."""
    text, match = unit.tokens.text, unit.tokens.match
    if text[end] != ")":
        return False
    opened = match[end]
    following = text[_past_members(unit, end + 1)]
    called = is_name(text[opened - 1]) and text[opened - 1] not in ("return", "case")
    return not called and (following in _WRITES or following == "(" or text[opened - 1] in ("&", "++", "--"))


def _past_members(unit: Unit, index: int) -> int:
    """The token after the members and subscripts that are taken of what stands before `index`."""
    text, match = unit.tokens.text, unit.tokens.match
    while text[index] in (".", "->", "["):
        index = match[index] + 1 if text[index] == "[" else index + 2
    return index
