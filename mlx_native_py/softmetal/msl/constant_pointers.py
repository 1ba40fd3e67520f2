"""Device pointers used as `constant`: separate address spaces in Metal, the same memory here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .arguments import split
from .lambdas import Lambda, lambdas
from .lexer import close_angle, is_name
from .pointer_names import (
    SPACES,
    PointerNames,
    between,
    constant_members,
    member_names,
    pointed,
    result_names,
    variable_names,
)
from .scopes import Declaration, walk
from .unit import Unit

_CASTS = frozenset({"static_cast", "reinterpret_cast"})
_KEPT = "a pointer to device memory cannot become one to constant memory"


def check_constant_pointers(unit: Unit) -> None:
    """Notes an error where device memory is handed to a constant parameter, kept, returned or cast as constant."""
    places = unit.tokens.places
    if "constant" not in places or "device" not in places:
        return
    functions = [d for d in walk(unit.declarations) if d.kind == "function" and d.parameters]
    inner = list(lambdas(unit))
    wanted = _constant_parameters(unit, functions, inner)
    calls = unit.tokens.places_of({name for name, _ in wanted})
    spaces = unit.tokens.places_of(SPACES)
    others = unit.tokens.places_of(("=", "return", *_CASTS))
    autos = unit.tokens.places.get("auto", [])
    members, results = member_names(unit), result_names(unit, functions)
    kept = constant_members(unit)
    braces = unit.tokens.places.get("{", []) if kept else []
    for function in functions:
        if function.body is None:
            continue
        within = between(spaces, function.body)
        check = _Check(unit, PointerNames(variable_names(unit, function, within), members, results), inner)
        check.deduce(between(autos, function.body))
        for index in between(calls, function.body):
            check.call(index, wanted)
        for index in within:
            check.cast_before(index)
        for index in between(others, function.body):
            check.statement(index, function)
        for index in between(braces, function.body):
            check.braces(index, kept)


@dataclass(frozen=True)
class _Taken:
    """What a function takes: the kind of each parameter, how many have no default, and whether more may follow."""

    kinds: list[str]
    least: int
    is_open: bool

    def kind(self, place: int) -> str:
        return self.kinds[place] if place < len(self.kinds) else ""


def _constant_parameters(
    unit: Unit, functions: list[Declaration], inner: list[Lambda]
) -> dict[tuple[str, int], dict[int, str]]:
    """By name and count of arguments: those in constant memory for some function and in device for none, with mark."""
    overloads: dict[str, list[_Taken]] = {}
    named = [(unit.tokens.text[each.name], each.parameters) for each in functions]
    for name, parameters in (*named, *((each.name, each.parameters) for each in inner)):
        if name and parameters:
            overloads.setdefault(name, []).append(_taken(unit, parameters))
    found: dict[tuple[str, int], dict[int, str]] = {}
    for name, every in overloads.items():
        for count in {len(each.kinds) for each in every}:
            fit = [each for each in every if each.least <= count and (each.is_open or count <= len(each.kinds))]
            known = [{each.kind(place) for each in fit} for place in range(count)]
            marks = {n: mark for n, spaces in enumerate(known) for mark in "*&" if _takes_no_device(spaces, mark)}
            if marks:
                found[name, count] = marks
    return found


def _taken(unit: Unit, parameters: tuple[int, int]) -> _Taken:
    given = [unit.tokens.text[start:end] for start, end in split(unit, *parameters)]
    is_open = bool(given) and "..." in given[-1]
    least = sum("=" not in words for words in given) - is_open
    return _Taken(["" if "..." in words else pointed(words) for words in given], least, is_open)


def _takes_no_device(known: set[str], mark: str) -> bool:
    return f"constant{mark}" in known and known <= {space + mark for space in SPACES if space != "device"}


class _Check:
    """Checks the expressions of one function."""

    def __init__(self, unit: Unit, names: PointerNames, inner: list[Lambda]) -> None:
        self.unit = unit
        self.text, self.match = unit.tokens.text, unit.tokens.match
        self.names = names
        self.inner = inner

    def deduce(self, autos: list[int]) -> None:
        """Learns what `auto p = x;` declares, where all variables of the name are alike."""
        found: dict[str, set[bool]] = {}
        for index in autos:
            if self.text[index + 2 : index + 3] == ["="]:
                value = self.text[index + 3 : self._end(index + 2)]
                found.setdefault(self.text[index + 1], set()).add(self.names.is_device(value, "*"))
        known = self.names.variables
        known.update({name: "device*" for name, kinds in found.items() if kinds == {True} and name not in known})

    def call(self, index: int, wanted: Mapping[tuple[str, int], Mapping[int, str]]) -> None:
        """`f(x)`, `n::f(x)`, `s.f(x)`, `f<T>(x)`, and `S s(x)` of a class."""
        text = self.text
        opened = index + 1
        if text[opened] == "<" and (close := close_angle(self.unit.tokens, opened)) >= 0:
            opened = close + 1
        opened += is_name(text[opened])
        if text[opened] not in ("(", "{"):
            return
        arguments = split(self.unit, opened, self.match[opened])
        for place, mark in wanted.get((text[index], len(arguments)), {}).items():
            start, end = arguments[place]
            if self.names.is_device(text[start:end], mark):
                self.unit.error(
                    start, f"argument {place + 1} of '{text[index]}' is in device memory, expected constant memory"
                )

    def statement(self, index: int, function: Declaration) -> None:
        """`constant float *p = x;`, `p = x;`, `s.p = x;`, `return x;` and casts by name."""
        if self.text[index] in _CASTS:
            self._named_cast(index)
            return
        if self.text[index] == "return":
            around = [each for each in self.inner if each.body[0] < index < each.body[1]]
            result = pointed(around[-1].result if around else self.text[function.head : function.name])
        else:
            result = self._target(index)
        if result in ("constant*", "constant&"):
            if self.names.is_device(self.text[index + 1 : self._end(index)], result[-1]):
                self.unit.error(index + 1, _KEPT)

    def braces(self, index: int, kept: Mapping[str, Mapping[int, str]]) -> None:
        """`S s{x};`, `S s = {x};` and `S{x}`, where `kept` are the members of S in constant memory."""
        before = self.text[max(index - 3, 0) : index]
        if before[-1:] == ["="]:
            name = before[0]
        elif before[-1] in kept:
            name = before[-1] if before[-2] not in ("struct", "class") else ""
        else:
            name = before[-2] if is_name(before[-1]) else ""
        values = split(self.unit, index, self.match[index]) if name in kept else []
        for place, mark in kept.get(name, {}).items():
            if place < len(values) and self.names.is_device(self.text[slice(*values[place])], mark):
                self.unit.error(values[place][0], _KEPT)

    def _end(self, index: int) -> int:
        """Where the expression behind `index` ends."""
        end = index + 1
        while end < len(self.text) and self.text[end] not in (";", ",", ")", "}", "]"):
            end = self.match[end] + 1 if self.text[end] in ("(", "[", "{") else end + 1
        return end

    def _target(self, index: int) -> str:
        """What is to the left of `=`: a declaration, or a pointer that is set."""
        text, first = self.text, index
        while text[first - 1] not in (";", "{", "}", "(", ",", ")"):
            first -= 1
        words = text[first:index]
        if {"*", "&"} & set(words):
            return pointed(words[:-1])
        known = self.names.members if words[-2:-1] in (["."], ["->"]) else self.names.variables
        found = known.get(words[-1], "") if words else ""
        return found if found.endswith("*") else ""

    def cast_before(self, index: int) -> None:
        """`(constant T *)x`, at the word `constant`."""
        text, opened = self.text, index
        while text[opened] in SPACES or text[opened] == "const":
            opened -= 1
        if text[opened] != "(" or is_name(text[opened - 1]):
            return
        close = self.match[opened]
        if text[close - 1] == "*" and pointed(text[opened + 1 : close]) == "constant*":
            self._cast(close + 1, self._operand_end(close + 1))

    def _operand_end(self, start: int) -> int:
        """Where the operand of a cast ends: a group, or a name with its members and subscripts."""
        end = start + (self.text[start] == "&")
        end = self.match[end] + 1 if self.text[end] == "(" else end + 1
        while self.text[end] in (".", "->", "[", "("):
            end = end + 2 if self.text[end] in (".", "->") else self.match[end] + 1
        return end

    def _named_cast(self, index: int) -> None:
        close = close_angle(self.unit.tokens, index + 1)
        if close >= 0 and pointed(self.text[index + 2 : close]) == "constant*":
            self._cast(close + 2, self.match[close + 1])

    def _cast(self, start: int, end: int) -> None:
        if self.names.is_device(self.text[start:end], "*"):
            self.unit.error(start, "a cast from device to constant memory converts between mismatching address spaces")
