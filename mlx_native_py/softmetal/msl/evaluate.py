"""Evaluates constant expressions in attributes and derived function constants."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Value = int | float | bool
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)([uUlL]*)$")
_BITS = 64
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_CASTS = frozenset(
    {"bool", "int", "uint", "short", "ushort", "char", "uchar", "long", "ulong", "float", "half", "unsigned"}
)


_LARGEST = 1 << 128  # of an integer on the way to the 64 bits that constants have
_OUT_OF_RANGE = "its value"


class NotConstant(Exception):
    """The expression contains something whose value is unknown here."""


class Named:
    """Values by name, each worked out once; one that depends on itself has none."""

    def __init__(self, work_out: Callable[[str], Value]) -> None:
        self._work_out = work_out
        self._known: dict[str, Value | NotConstant] = {}

    def __call__(self, name: str) -> Value:
        if name not in self._known:
            self._known[name] = NotConstant(name)
            try:
                self._known[name] = self._work_out(name)
            except NotConstant as reason:
                self._known[name] = reason
            except RecursionError:
                del self._known[name]
                raise
        known = self._known[name]
        if isinstance(known, NotConstant):
            raise NotConstant(*known.args)
        return known


def evaluate(tokens: Sequence[str], lookup: Callable[[str], Value], defined: Callable[[str], bool]) -> Value:
    """The value of an expression; `lookup` gives names their values, `defined` answers is_function_constant_defined."""
    reader = _Reader(tokens, lookup, defined)
    try:
        value = reader.conditional()
    except (OverflowError, ValueError):
        raise NotConstant(_OUT_OF_RANGE) from None
    if reader.index != len(tokens):
        raise NotConstant(tokens[reader.index])
    return value


def integer(value: Value) -> int:
    """The value without its fraction."""
    try:
        return int(value)
    except (OverflowError, ValueError):  # infinity, and what is no number
        raise NotConstant(_OUT_OF_RANGE) from None


class _Reader:
    def __init__(self, tokens: Sequence[str], lookup: Callable[[str], Value], defined: Callable[[str], bool]) -> None:
        self.tokens = tokens
        self.lookup = lookup
        self.defined = defined
        self.index = 0

    def peek(self) -> str:
        return self.tokens[self.index] if self.index < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise NotConstant(token or "end of expression")
        self.index += 1
        return token

    def conditional(self) -> Value:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        # The branch not taken may name a constant that has no value.
        yes = self._guarded()
        self.take(":")
        no = self._guarded()
        chosen = yes if condition else no
        if chosen is None:
            raise NotConstant("undefined constant")
        return chosen

    def _guarded(self) -> Value | None:
        start = self.index
        try:
            return self.conditional()
        except NotConstant:
            self.index = start
            self._skip_operand()
            return None

    def _skip_operand(self) -> None:
        depth = 0
        while self.index < len(self.tokens):
            token = self.tokens[self.index]
            if depth == 0 and token in (":", ")", ","):
                return
            depth += (token in "([") - (token in ")]")
            self.index += 1

    def binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            operator = self.take()
            left = _apply(operator, left, self.binary(level + 1))
            if not -_LARGEST < left < _LARGEST and isinstance(left, int):
                raise NotConstant(_OUT_OF_RANGE)
        return left

    def unary(self) -> Value:
        token = self.take()
        if token in ("!", "-", "+", "~"):
            value = self.unary()
            if token == "!":
                return not value
            return ~int(value) if token == "~" else -value if token == "-" else value
        if token == "(":
            if self.peek() in _CASTS and self.tokens[self.index + 1 : self.index + 2] == [")"]:
                self.index += 2
                return self.unary()
            value = self.conditional()
            self.take(")")
            return value
        if token in ("true", "false"):
            return token == "true"
        if token == "is_function_constant_defined":
            self.take("(")
            name = self.take()
            self.take(")")
            return self.defined(name)
        return self._primary(token)

    def _primary(self, token: str) -> Value:
        if number := _NUMBER.match(token):
            digits = number[1]
            return int(digits, 8) if digits[0] == "0" and digits.isdigit() else int(digits, 0)
        if token in _CASTS and self.peek() == "(":
            self.take()
            value = self.conditional()
            self.take(")")
            return bool(value) if token == "bool" else float(value) if token in ("float", "half") else int(value)
        if token[0].isdigit() or token[0] == ".":
            try:
                return float(token.rstrip("fFhH"))
            except ValueError:
                raise NotConstant(token) from None
        if self.peek() == "::":
            self.take()
            return self._primary(self.take())
        if not (token[0].isalpha() or token[0] == "_"):
            raise NotConstant(token)
        return self.lookup(token)


def _apply(operator: str, left: Value, right: Value) -> Value:
    if operator in ("<<", ">>") and not 0 <= right < _BITS:
        raise NotConstant(f"shift by {right}")
    if operator in ("/", "%"):
        if not right:
            raise NotConstant("division by zero")
        if isinstance(left, float) or isinstance(right, float):
            return left / right
        quotient = abs(int(left)) // abs(int(right)) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else int(left) - quotient * int(right)
    actions: dict[str, Callable[[], Value]] = {
        "||": lambda: bool(left) or bool(right),
        "&&": lambda: bool(left) and bool(right),
        "|": lambda: int(left) | int(right),
        "^": lambda: int(left) ^ int(right),
        "&": lambda: int(left) & int(right),
        "==": lambda: left == right,
        "!=": lambda: left != right,
        "<": lambda: left < right,
        ">": lambda: left > right,
        "<=": lambda: left <= right,
        ">=": lambda: left >= right,
        "<<": lambda: int(left) << int(right),
        ">>": lambda: int(left) >> int(right),
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
    }
    return actions[operator]()
