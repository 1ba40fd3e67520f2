"""From preprocessed MSL to what clang compiles: runs the passes in their order."""

from __future__ import annotations

from dataclasses import dataclass

from ..program import CompileError
from . import emit, spaces, strict
from .closure import Graph, build_graph
from .components import open_components
from .conditionals import unify_operands
from .function_parameters import loosen_references, take_by_reference
from .kernels import Entry, KernelFunction, KernelReader
from .lexer import LexicalError, lex
from .loops import mark_loops
from .members import unify_members
from .positions import Positions
from .scopes import parse
from .subscripts import pack_subscripts
from .threadgroup import place_variables
from .unit import Unit
from .values import Values


@dataclass(frozen=True)
class Translation:
    """A source after all passes; the unit leads from its text back to the user's."""

    unit: Unit
    functions: tuple[KernelFunction, ...]
    entries: dict[str, Entry]
    values: Values
    graph: Graph
    segments: tuple[emit.Segment, ...]


def translate(text: str, positions: Positions) -> Translation:
    """Translates the preprocessor's output; raises CompileError."""
    try:
        tokens = lex(text, positions.path)
        declarations = parse(tokens)
    except LexicalError as error:
        raise CompileError((positions.diagnostic(error.tokens, error.index, str(error)),)) from None
    unit = Unit(tokens, positions, declarations, spaces.translate(tokens))
    values = Values(unit)
    kernels = KernelReader(unit, values)
    kernels.read()
    place_variables(unit, kernels.functions)
    unify_members(unit)
    unify_operands(unit)
    open_components(unit)
    loosen_references(unit)
    take_by_reference(unit)
    pack_subscripts(unit)
    strict.check(unit)
    unit.raise_errors()
    owners = emit.droppable(unit, kernels.functions)
    graph = build_graph(unit, set(owners))
    mark_loops(unit, graph)
    emit.make_inline(unit, kernels.functions)
    cut = emit.segments(unit, owners, kernels.instantiations)
    return Translation(unit, tuple(kernels.functions), kernels.entries, values, graph, tuple(cut))
