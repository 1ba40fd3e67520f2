"""Translation of preprocessed MSL to C++: runs the passes in order."""

from __future__ import annotations

from dataclasses import dataclass

from ..program import CompileError, Diagnostic
from . import emit, spaces, strict
from .closure import Graph, build_graph
from .components import open_components
from .conditionals import unify_operands
from .function_arguments import take_by_reference
from .function_parameters import loosen_locals, loosen_references, number_elements, place_arrays
from .kernels import Entry, KernelFunction, KernelReader
from .lexer import LexicalError, Tokens, lex
from .loops import mark_loops
from .members import unify_members
from .positions import Positions
from .returns import mark_returns
from .scopes import parse
from .stages import leave_out_graphics
from .strings import place_strings
from .subscripts import pack_subscripts
from .tails import fill_tails
from .threadgroup import place_variables
from .unit import Unit
from .values import Values


@dataclass(frozen=True)
class Translation:
    """A translated source; its unit maps the text back to the user's."""

    unit: Unit
    functions: tuple[KernelFunction, ...]
    entries: dict[str, Entry]
    values: Values
    graph: Graph
    segments: tuple[emit.Segment, ...]


def translate(text: str, positions: Positions, language: tuple[int, int] = (3, 2)) -> Translation:
    """Translates the preprocessor's output; raises CompileError."""
    try:
        tokens = lex(text, positions.path)
    except LexicalError as error:
        raise CompileError((positions.diagnostic(error.tokens, error.index, str(error)),)) from None
    try:
        return _translated(tokens, positions, language)
    except LexicalError as error:
        raise CompileError((positions.diagnostic(error.tokens, error.index, str(error)),)) from None
    except RecursionError:
        raise CompileError((_at_deepest(tokens, positions),)) from None


def _at_deepest(tokens: Tokens, positions: Positions) -> Diagnostic:
    """The message for a source that no pass can follow, at its innermost bracket."""
    deepest, depth, index = 0, 0, 0
    for i, partner in enumerate(tokens.match):
        depth += (partner > i) - (0 <= partner < i)
        if depth > deepest:
            deepest, index = depth, i
    return positions.diagnostic(tokens, index, "the source is nested too deeply, or a constant depends on itself")


def _translated(tokens: Tokens, positions: Positions, language: tuple[int, int]) -> Translation:
    tokens, notes = leave_out_graphics(tokens, positions)
    unit = Unit(tokens, positions, parse(tokens), spaces.translate(tokens), warnings=notes, language=language)
    values = Values(unit)
    kernels = KernelReader(unit, values)
    kernels.read()
    place_variables(unit, kernels.functions)
    unify_operands(unit)
    open_components(unit)
    loosen_references(unit)
    loosen_locals(unit)
    place_arrays(unit)
    number_elements(unit)
    take_by_reference(unit)
    pack_subscripts(unit)
    unify_members(unit)
    fill_tails(unit)
    place_strings(unit)
    strict.check(unit)
    unit.raise_errors()
    owners = emit.droppable(unit)
    graph = build_graph(unit, set(owners))
    mark_loops(unit, graph)
    mark_returns(unit, kernels.functions)
    emit.make_inline(unit, kernels.functions)
    cut = emit.segments(unit, owners, kernels.instantiations)
    return Translation(unit, tuple(kernels.functions), kernels.entries, values, graph, tuple(cut))
