"""Reachability: the declarations and constants that a kernel uses, and whether its threads wait for each other."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .lexer import is_name
from .scopes import Declaration
from .unit import Unit

_WAITS = re.compile(
    r"threadgroup_barrier|simdgroup_\w+|make_filled_simdgroup_matrix|simdgroup_matrix|"
    r"(simd|quad)_(sum|product|minimum|maximum|min|max|and|or|xor|any|all|ballot|vote|broadcast\w*|shuffle\w*|prefix\w*|"
    r"is_first|active_threads_mask)|__metal_(simd|quad)\w*|__metal_\w*barrier\w*|matmul2d\w*|cooperative_tensor|tensor_ops"
)
_TYPES = re.compile(r"simdgroup_\w+8x8|cooperative_tensor|matmul2d\w*|tensor_ops|simd_vote|quad_vote")


@dataclass
class Graph:
    """`uses` maps each declared name to the names that its declarations mention."""

    uses: dict[str, list[str]] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)  # names whose declarations themselves wait
    common: list[str] = field(default_factory=list)  # mentioned by what every kernel's text holds

    def reach(self, roots: Iterable[str]) -> set[str]:
        """All declared names that can be come by from `roots`."""
        return reach(self.uses, roots)


def reach(uses: Mapping[str, list[str]], roots: Iterable[str]) -> set[str]:
    """The closure of `roots` over `uses`."""
    reached: set[str] = set()
    todo = [name for name in roots if name in uses]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += uses[name]
    return reached


def build_graph(unit: Unit, droppable: set[int]) -> Graph:
    """The graph of a unit; `droppable` holds the start of each function whose body a kernel may do without."""
    mentions: dict[str, set[str]] = {}
    waiting: set[str] = set()
    common: set[str] = set()
    places = wait_indices(unit)
    for declaration in _leaves(unit.declarations):
        words = _words(unit, declaration.start, declaration.end)
        waits = bisect_left(places, declaration.start) < bisect_left(places, declaration.end)
        declared = _declared(unit, declaration)
        for name in declared:
            # Of many enumerators one speaks for the others.
            mentions.setdefault(name, set()).update(words if name == declared[0] else declared[:1])
            if waits:
                waiting.add(name)
        if declaration.start not in droppable:
            common |= words
    uses = {name: sorted((words & mentions.keys()) - {name}) for name, words in mentions.items()}
    return Graph(uses, sorted(waiting), sorted(common & mentions.keys()))


def _leaves(declarations: list[Declaration]) -> Iterable[Declaration]:
    for declaration in declarations:
        if declaration.kind == "namespace":
            yield from _leaves(declaration.children)
        elif declaration.kind != "instantiation":
            yield declaration


def _words(unit: Unit, start: int, end: int) -> set[str]:
    return {token for token in set(unit.tokens.text[start:end]) if is_name(token)}


def _declared(unit: Unit, declaration: Declaration) -> list[str]:
    text = unit.tokens.text
    if declaration.kind in ("function", "variable", "class") and declaration.name >= 0:
        names = [text[declaration.name]]
        if text[declaration.name - 1] == "::":
            names.append(text[declaration.name - 2])
        if declaration.kind == "class" and declaration.body:
            names += [token for token in text[declaration.body[1] + 1 : declaration.end] if is_name(token)]
        return names
    if declaration.kind == "other":
        words = [token for token in text[declaration.head : declaration.end] if is_name(token)]
        return words[1:2] if text[declaration.head] == "using" else words[-1:]
    if declaration.kind == "enum":
        return sorted(_words(unit, declaration.start, declaration.end))
    return []


def wait_indices(unit: Unit) -> list[int]:
    """Where threads of a kernel wait for each other, by the functions and types of Metal that make them."""
    text = unit.tokens.text
    named = unit.tokens.places_of(token for token in unit.tokens.places if _WAITS.fullmatch(token))
    return [
        index
        for index in named
        if unit.out[index] and (text[index + 1 : index + 2] in (["("], ["<"]) or _TYPES.fullmatch(text[index]))
    ]


def reaches(calls: Mapping[str, Iterable[str]], start: str, goal: str) -> bool:
    """Whether `goal` is `start`, or can be come by from it through what each name calls."""
    seen, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            todo += calls.get(name, ())
    return False
