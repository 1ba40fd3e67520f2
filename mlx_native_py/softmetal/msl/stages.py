"""Render stages and their types, removed from sources that also have kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..program import Diagnostic
from .attributes import attributes
from .lexer import Tokens, is_name, without
from .positions import Positions
from .scopes import Declaration, parse

STAGES = frozenset({"vertex", "fragment", "object", "mesh", "intersection", "tile"})
_TYPES = re.compile(
    r"imageblock|intersector|intersection_query|"
    r"acceleration_structure|(primitive|instance)_acceleration_structure|visible_function_table|intersection_function_table|"
    r"render_grid_properties|mesh_grid_properties|command_buffer|compute_command|render_command"
)
_FRAGMENT_CALLS = frozenset({"discard_fragment", "dfdx", "dfdy", "fwidth", "get_num_samples", "get_sample_position"})


def graphics_indices(tokens: Tokens) -> list[int]:
    """Where a type is named that software Metal has not, or a function of fragments is called."""
    words = (word for word in tokens.places if word in _FRAGMENT_CALLS or _TYPES.fullmatch(word))
    return [index for index in tokens.places_of(words) if _is_graphics(tokens, index)]


def _is_graphics(tokens: Tokens, index: int) -> bool:
    text = tokens.text
    following = text[index + 1] if index + 1 < len(text) else ""
    if text[index - 1] in (".", "->") or not following:
        return False
    if text[index] in _FRAGMENT_CALLS:
        return following == "("
    return following == "<" or is_name(following) or text[index - 1] == "::"


@dataclass(frozen=True)
class _Part:
    """A top-level declaration, with the names it declares and mentions."""

    declaration: Declaration
    names: frozenset[str]
    words: frozenset[str]
    is_kernel: bool
    is_stage: bool
    unsupported: int  # the token that software Metal has nothing for, or -1


def leave_out_graphics(tokens: Tokens, positions: Positions) -> tuple[Tokens, list[Diagnostic]]:
    """The tokens without render stages, and without what kernels cannot use, if some kernel can do without that.

    The second answer are notes about kernels that had to go.
    """
    graphics = graphics_indices(tokens)
    if STAGES.isdisjoint(tokens.places) and not graphics:
        return tokens, []
    parts = [_part(tokens, declaration, graphics) for declaration in _outer(parse(tokens))]
    stages = frozenset[str]().union(*(part.names for part in parts if part.is_stage))
    gone = {
        id(part): part.unsupported
        for part in parts
        if part.is_stage or part.unsupported >= 0 or (part.declaration.kind == "instantiation" and stages & part.words)
    }
    while more := _lost(parts, gone):
        gone |= more
    if not any(part.is_kernel for part in parts if id(part) not in gone):
        return tokens, []  # what is missing is an error then, at its own place
    notes = [_note(tokens, positions, part, gone[id(part)]) for part in parts if id(part) in gone and part.is_kernel]
    ranges = [(part.declaration.start, part.declaration.end) for part in parts if id(part) in gone]
    return without(tokens, ranges), notes


def _note(tokens: Tokens, positions: Positions, part: _Part, cause: int) -> Diagnostic:
    text = tokens.text
    message = f"kernel '{text[part.declaration.name]}' is left out: '{text[cause]}' is not supported by software Metal"
    return positions.diagnostic(tokens, cause, message, "warning")


def _lost(parts: list[_Part], gone: dict[int, int]) -> dict[int, int]:
    """What mentions something that is gone, and functions that only what is gone mentions."""
    kept = [part for part in parts if id(part) not in gone]
    left = frozenset[str]().union(*(part.names for part in kept))
    missing = {
        name: gone[id(part)] for part in parts if id(part) in gone and not part.is_stage for name in part.names - left
    }
    lost = {}
    for part in kept:
        cause = next((missing[word] for word in sorted(part.words) if word in missing), None)
        if cause is not None:
            lost[id(part)] = cause
    mentioned = frozenset[str]().union(*(part.words - part.names for part in kept))
    stages = frozenset[str]().union(*(part.words for part in parts if id(part) in gone))
    for part in kept:
        if part.declaration.kind == "function" and not part.is_kernel and part.names <= stages - mentioned:
            lost.setdefault(id(part), -1)
    return lost


def _outer(declarations: list[Declaration]) -> Iterator[Declaration]:
    for declaration in declarations:
        if declaration.kind == "namespace":
            yield from _outer(declaration.children)
        else:
            yield declaration


def _part(tokens: Tokens, declaration: Declaration, graphics: list[int]) -> _Part:
    text = tokens.text
    indices = range(declaration.start, declaration.end)
    prefix = text[declaration.head : declaration.name] if declaration.kind == "function" else []
    marks = {a.name for a in attributes(tokens, declaration.start, max(declaration.name, declaration.start))}
    keywords = {word for word in prefix[:-1] if word in ("vertex", "fragment")} if len(prefix) > 1 else set()
    unsupported = next((index for index in graphics if index in indices), -1)
    return _Part(
        declaration,
        frozenset(_names(tokens, declaration)),
        frozenset(text[i] for i in indices if is_name(text[i])),
        is_kernel=declaration.kind == "function" and ("kernel" in prefix or "kernel" in marks),
        is_stage=declaration.kind == "function" and bool(keywords or marks & STAGES),
        unsupported=unsupported,
    )


def _names(tokens: Tokens, declaration: Declaration) -> Iterator[str]:
    text = tokens.text
    if declaration.kind in ("function", "variable", "class") and declaration.name >= 0:
        yield text[declaration.name]
    elif declaration.kind == "other" and text[declaration.head] == "using":
        yield text[declaration.head + 1]
    elif declaration.kind == "other":
        yield from [word for word in text[declaration.head : declaration.end] if is_name(word)][-1:]
