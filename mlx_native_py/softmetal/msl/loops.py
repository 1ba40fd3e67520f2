"""Loops with waits that some threads may skip: threads count iterations, so that only equal ones rendezvous."""

from __future__ import annotations

from bisect import bisect_left

from .closure import Graph, reach
from .closure import wait_indices as direct_waits
from .function_arguments import names_of_functions
from .unit import Unit

_LOOPS = ("for", "while", "do")
_BRANCHES = ("if", "switch", *_LOOPS)
_OPERATORS = ("?", "&&", "||")


def mark_loops(unit: Unit, graph: Graph) -> None:
    """Puts SOFT_LOOP and SOFT_ROUND around the loops that need them."""
    waits = _waits(unit, graph)
    if not waits:
        return
    tails: set[int] = set()
    for index in unit.tokens.places_of(_LOOPS):
        token = unit.tokens.text[index]
        if index in tails:
            continue
        body = index + 1 if token == "do" else unit.tokens.match[index + 1] + 1
        end = statement_end(unit, body)
        if token == "do":
            tails.add(end)
        if _parts_ways(unit, waits, body, end):
            _mark(unit, index, body)


def _mark(unit: Unit, index: int, body: int) -> None:
    """A pragma must stay next to its loop, so the count begins before it."""
    first = index
    while unit.tokens.text[first - 1].startswith("#"):
        first -= 1
    if first == index:
        before = unit.out[index].removesuffix(unit.tokens.text[index])
        unit.out[index] = f"{before} SOFT_LOOP {unit.tokens.text[index]}"
    else:
        unit.out[first - 1] += " SOFT_LOOP"
    unit.out[body - 1] += " SOFT_ROUND"  # last: the body of a `do` begins right behind it


def _waits(unit: Unit, graph: Graph) -> list[int]:
    """Where threads of a simdgroup wait, or call something of the source in which they do."""
    direct = set(direct_waits(unit))
    users: dict[str, list[str]] = {name: [] for name in graph.uses}
    for name, used in graph.uses.items():
        for other in used:
            users[other].append(name)
    names = reach(users, graph.waiting)
    if names:
        names |= names_of_functions(unit)
    return sorted(direct.union(unit.tokens.places_of(names)))


def _any(waits: list[int], start: int, end: int) -> bool:
    at = bisect_left(waits, start)
    return at < len(waits) and waits[at] < end


def _parts_ways(unit: Unit, waits: list[int], start: int, end: int) -> bool:
    """Whether one thread may pass a place in the loop's body at which another waits."""
    if not _any(waits, start, end):
        return False
    text = unit.tokens.text
    for index in range(start, end):
        token = text[index]
        if token == "continue":
            return True
        if token in _BRANCHES and _any(waits, index, statement_end(unit, index)):
            return True
        if token in _OPERATORS and _any(waits, index, _simple_end(unit, index)):
            return True
    return False


def statement_end(unit: Unit, index: int) -> int:
    """The index after the statement that begins at `index`."""
    text, match = unit.tokens.text, unit.tokens.match
    while text[index].startswith("#"):
        index += 1
    token = text[index]
    if token == "{":
        return match[index] + 1
    if token == "do":
        return statement_end(unit, index + 1)
    if token in ("for", "while", "switch"):
        return statement_end(unit, match[index + 1] + 1)
    if token == "if":
        opened = index + 2 if text[index + 1] == "constexpr" else index + 1
        end = statement_end(unit, match[opened] + 1)
        return statement_end(unit, end + 1) if end < len(text) and text[end] == "else" else end
    return _simple_end(unit, index) + 1


def _simple_end(unit: Unit, index: int) -> int:
    """The semicolon that ends a simple statement, or the bracket around it."""
    text, match = unit.tokens.text, unit.tokens.match
    while index < len(text) and text[index] not in (";", "}", ")"):
        index = match[index] + 1 if text[index] in ("(", "[", "{") else index + 1
    return index
