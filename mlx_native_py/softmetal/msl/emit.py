"""The text that clang compiles, in segments, and the mapping from its lines to tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from .attributes import is_attribute
from .kernels import KernelFunction
from .scopes import Declaration, walk
from .unit import Unit

Kind = Literal["common", "body", "instantiation"]


@dataclass(frozen=True)
class Segment:
    """A run of tokens; a function body can be omitted."""

    kind: Kind
    owner: str
    start: int
    end: int


@dataclass(frozen=True)
class Piece:
    """A segment's text; `owner` may be a function that only some kernels need."""

    kind: Kind
    owner: str
    text: str


def droppable(unit: Unit) -> dict[int, str]:
    """The functions whose bodies a kernel may do without: start of the declaration -> name of the owner."""
    text = unit.tokens.text
    names = {}
    for declaration in outer_functions(unit.declarations):
        if text[declaration.name] != "operator" and text[declaration.name - 1] not in ("::", "~"):
            names[declaration.start] = text[declaration.name]
    return names


def make_inline(unit: Unit, functions: list[KernelFunction]) -> None:
    """Marks plain functions inline, so that only those in use cost code generation and none lacks its body."""
    kernels = {function.declaration.start for function in functions}
    text = unit.tokens.text
    for declaration in outer_functions(unit.declarations, with_body=False):
        words = text[declaration.start : declaration.name]
        if declaration.head == declaration.name and not declaration.body:
            continue  # a deduction guide
        if declaration.start not in kernels and not {"inline", "static", "constexpr"} & set(words):
            index = declaration.head
            while is_attribute(unit.tokens, index):
                index = unit.tokens.match[index] + 1
            unit.out[index] = "inline " + unit.out[index]


def outer_functions(declarations: list[Declaration], *, with_body: bool = True) -> Iterable[Declaration]:
    for declaration in declarations:
        if declaration.kind == "namespace":
            yield from outer_functions(declaration.children, with_body=with_body)
        elif declaration.kind == "function" and (declaration.body or not with_body):
            yield declaration


def segments(unit: Unit, owners: dict[int, str], instantiations: list[Declaration]) -> list[Segment]:
    """The whole source, cut where a kernel's text may leave something out."""
    cuts: list[Segment] = [Segment("instantiation", "", d.start, d.end) for d in instantiations]
    for declaration in walk(unit.declarations):
        if (
            declaration.start in owners
            and declaration.body
            and declaration.kind == "function"
            and not declaration.in_class
        ):
            # Constructor initialisers stand before the body, but only members have them.
            cuts.append(Segment("body", owners[declaration.start], declaration.body[0], declaration.body[1] + 1))
    parts, position = [], 0
    for cut in sorted(cuts, key=lambda segment: segment.start):
        if cut.start < position:
            continue
        parts += [Segment("common", "", position, cut.start), cut]
        position = cut.end
    parts.append(Segment("common", "", position, len(unit.tokens)))
    return [segment for segment in parts if segment.start < segment.end]


def render(unit: Unit, segment: Segment) -> list[list[int]]:
    """The lines of a segment's text, each as the tokens on it."""
    lines: list[list[int]] = [[]]
    row: tuple[str, int] | None = None
    texts, rows, out = unit.tokens.text, unit.tokens.row, unit.out
    for index in range(segment.start, segment.end):
        if not out[index]:
            continue
        if rows[index] is not row or texts[index][0] == "#":
            row = rows[index]
            if lines[-1]:
                lines.append([])
        lines[-1].append(index)
        if texts[index][0] == "#":
            row = None
    return lines


def pieces(unit: Unit, parts: list[Segment]) -> list[Piece]:
    """The segments as text."""
    out = unit.out
    return [
        Piece(part.kind, part.owner, "\n".join(" ".join([out[i] for i in line]) for line in render(unit, part)))
        for part in parts
    ]


def assemble(parts: Iterable[Piece], wanted: Callable[[Piece], bool]) -> str:
    """One text of the wanted pieces; a body that is not wanted leaves a declaration, anything else not even a line."""
    return "\n".join(p.text if wanted(p) else ";" for p in parts if wanted(p) or p.kind == "body")


def locate(unit: Unit, parts: Iterable[Segment], wanted: Callable[[Segment], bool], line: int, column: int) -> int:
    """The token at a line and column (from 1) of the text that `assemble` made, or -1."""
    if line < 1:
        return -1
    for part in parts:
        if not wanted(part):
            line -= part.kind == "body"
            if line <= 0:
                return part.start
            continue
        lines = render(unit, part)
        if line > len(lines):
            line -= len(lines)
            continue
        for index in lines[line - 1]:
            if column <= len(unit.out[index]) + 1:
                return index
            column -= len(unit.out[index]) + 1
        return lines[line - 1][-1] if lines[line - 1] else part.start
    return -1
