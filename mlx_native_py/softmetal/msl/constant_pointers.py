"""Device memory where `constant` is asked for: an address space of its own on Metal, the same memory here."""

from __future__ import annotations

from bisect import bisect_left

from .arguments import declared_name, split
from .lexer import is_name
from .scopes import Declaration, walk
from .unit import Unit


def check_constant_pointers(unit: Unit) -> None:
    """Notes an error where a parameter in device memory is handed to one in constant memory, or kept as one."""
    functions = [d for d in walk(unit.declarations) if d.kind == "function" and d.parameters]
    wanted = {key: places for key, places in _constant_parameters(unit, functions).items() if places}
    calls = unit.tokens.places_of({name for name, _ in wanted})
    variables = unit.tokens.places.get("constant", [])
    for function in functions:
        if function.body and (device := _device_pointers(unit, function)):
            for index in _between(calls, function.body):
                _call(unit, index, device, wanted)
            for index in _between(variables, function.body):
                _variable(unit, index, device)


def _between(places: list[int], body: tuple[int, int]) -> list[int]:
    return places[bisect_left(places, body[0]) : bisect_left(places, body[1])]


def _constant_parameters(unit: Unit, functions: list[Declaration]) -> dict[tuple[str, int], set[int]]:
    """By name and count of parameters: which of them every function so declared takes in constant memory."""
    common: dict[tuple[str, int], set[int]] = {}
    text = unit.tokens.text
    for function in functions:
        assert function.parameters
        ranges = split(unit, *function.parameters)
        places = {n for n, (start, end) in enumerate(ranges) if _points_to(text[start:end], "constant")}
        key = (text[function.name], len(ranges))
        common[key] = common.get(key, places) & places
    return common


def _points_to(words: list[str], space: str) -> bool:
    return space in words and words.count("*") + words.count("&") == 1 and "<" not in words


def _device_pointers(unit: Unit, function: Declaration) -> set[str]:
    assert function.parameters
    text = unit.tokens.text
    ranges = [r for r in split(unit, *function.parameters) if _points_to(text[slice(*r)], "device")]
    return {text[name] for start, end in ranges if (name := declared_name(unit, start, end)) >= 0}


def _call(unit: Unit, index: int, device: set[str], wanted: dict[tuple[str, int], set[int]]) -> None:
    text, match = unit.tokens.text, unit.tokens.match
    if text[index + 1 : index + 2] != ["("] or not is_name(text[index]) or text[index - 1] in (".", "->", "::"):
        return
    arguments = split(unit, index + 1, match[index + 1])
    for place in wanted.get((text[index], len(arguments)), ()):
        start, end = arguments[place]
        if _root(text[start:end]) in device:
            unit.error(start, f"argument {place + 1} of '{text[index]}' is in device memory, expected constant memory")


def _variable(unit: Unit, index: int, device: set[str]) -> None:
    """`constant float *p = x;`"""
    text = unit.tokens.text
    end = index
    while text[end] not in (";", "{", "}", ")"):
        end += 1
    words = text[index:end]
    if "=" in words and words.count("*") == 1 and _root(words[words.index("=") + 1 :]) in device:
        unit.error(index + words.index("=") + 1, "a pointer to device memory cannot become one to constant memory")


def _root(words: list[str]) -> str:
    """The pointer that an expression is made of: p, p + n, &p[n], *p; nothing if it may be something else."""
    bare = words[1:] if words and words[0] in ("&", "*") else words
    if not bare or "." in bare or "->" in bare or "(" in bare[:2]:
        return ""
    if words[0] == "*" and len(bare) > 1:
        return ""
    return bare[0] if len(bare) == 1 or bare[1] in ("+", "-", "[") else ""
