"""Fusion: replaces two dispatches by one that gives bit-identical results.

The rules belong to the ops that have fused kernels. The checks here apply to every rule: the intermediate result has no
other reader, and nothing in between prevents the fusion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..counters import Tally
from ..encoder import CapturedNode, DeviceContext, Dispatch, Encoder, Recorder
from ..errors import InvalidArgument
from ..hazards.ranges import BufferRange, Span
from ..hazards.tracker import MemRanges
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Pipeline
from ..pipelines.sources import kernel_families, kernel_source
from .order import is_annotated

__all__ = ["Arguments", "fused", "fusion"]

LOOK_AHEAD = 64


class Arguments(dict[str, Any]):
    """A dispatch's arguments by the kernel's parameter names: buffers and numbers."""

    def __init__(self, dispatch: Dispatch) -> None:
        super().__init__()
        self.dispatch = dispatch
        for each in dispatch.bindings:
            binding = dispatch.pipeline.buffers[each.slot]
            if binding is None:
                continue
            if isinstance(each.value, bytes) and binding.scalar is not None:
                self[binding.name] = binding.scalar.unpack(each.value)
            else:
                self[binding.name] = each.value


Rule = Callable[[Encoder, Arguments, Arguments, MlxBuffer], bool]


@dataclass(frozen=True, slots=True)
class _Fusion:
    second: frozenset[str]
    rule: Rule
    writes_between: bool
    reads_parts: bool
    shipped: bool


_RULES: dict[str, list[_Fusion]] = {}
"""Rules by the name of the first kernel."""


def fusion(
    first: str | Iterable[str],
    second: str | Iterable[str],
    *,
    writes_between: bool = False,
    reads_parts: bool = False,
    shipped: bool = True,
) -> Callable[[Rule], Rule]:
    """Decorator for a fusion rule of kernel `first` and a kernel `second` that reads its result.

    The rule receives the arguments of both kernels and the buffer between them. It encodes the fused op and returns
    True, or returns False without encoding; an op that raises InvalidArgument counts as False. `writes_between` says
    that the fused op still writes that buffer; `reads_parts` that the second kernel may read only parts of it. Rules
    match the kernels shipped with this package; `shipped=False` is for kernels of your own.
    """
    firsts, seconds = ((names,) if isinstance(names, str) else names for names in (first, second))

    def mark(rule: Rule) -> Rule:
        known = _Fusion(frozenset(seconds), rule, writes_between, reads_parts, shipped)
        for name in firsts:
            _RULES.setdefault(name, []).append(known)
        return rule

    return mark


def fused(
    nodes: Sequence[CapturedNode], temporaries: Collection[Allocation], device: DeviceContext
) -> tuple[list[CapturedNode], int]:
    """The nodes with every pair replaced that a rule matches, and the number of pairs."""
    result = list(nodes)
    count = at = 0
    hidden = {each.memory for each in temporaries if not each.memory.aliases}
    rules = _Rules(device)
    while at < len(result):
        match = _match(result, at, hidden, rules)
        if match is None:
            at += 1
            continue
        second, replacement = match
        result[second] = replacement
        del result[at]
        count += 1
        # The new dispatch may itself be the second of a pair that starts earlier.
        at = max(0, at - LOOK_AHEAD)
    return result, count


class _Rules:
    """Applies rules on a recorder whose dispatches are not counted."""

    def __init__(self, device: DeviceContext) -> None:
        self._device = device
        self._sources = {kernel_source(family) for family in kernel_families()}

    def apply(self, rule: Rule, first: Arguments, second: Arguments, between: MlxBuffer) -> Dispatch | None:
        """The single dispatch that a rule produces, or None."""
        recorder = Recorder(self._device, Tally())
        try:
            done = rule(recorder, first, second, between)
        except InvalidArgument:
            done = False
        node = recorder.nodes[0] if done and len(recorder.nodes) == 1 else None
        return node if isinstance(node, Dispatch) else None

    def serves(self, rule: _Fusion, first: Pipeline, second: Pipeline) -> bool:
        """Whether the rule matches these kernels."""
        named = second.name in rule.second
        return named and (not rule.shipped or all(each.origin[0].source in self._sources for each in (first, second)))


def _match(nodes: list[CapturedNode], at: int, hidden: Collection[Any], tried: _Rules) -> tuple[int, Dispatch] | None:
    first = nodes[at]
    if not isinstance(first, Dispatch):
        return None
    rules = _RULES.get(first.pipeline.name)
    if rules is None or len(first.writes) != 1:
        return None
    second = _next_reader(nodes, at, first.writes[0].span)
    other = None if second is None else nodes[second]
    if second is None or not isinstance(other, Dispatch):
        return None
    whole = first.writes[0].span in other.spans[0]
    rules = [rule for rule in rules if tried.serves(rule, first.pipeline, other.pipeline)]
    rules = [rule for rule in rules if whole or rule.reads_parts]
    between = _buffer_at(first, first.writes[0]) if rules else None
    # The check that scans all later dispatches comes last, for the few pairs that pass the others.
    if between is None or not _clear(nodes, at, second):
        return None
    own = first.writes[0].allocation in hidden and not _read_later(nodes, second, first.writes[0])
    for rule in rules:
        if own or rule.writes_between:
            fused = tried.apply(rule.rule, Arguments(first), Arguments(other), between)
            if fused is not None:
                return second, replace(fused, region=other.region)
    return None


def _next_reader(nodes: list[CapturedNode], at: int, span: Span) -> int | None:
    """The index of the next dispatch that accesses the span, if it only reads it."""
    tracker = MemRanges()
    tracker.record([], [span])
    for index in range(at + 1, min(at + LOOK_AHEAD, len(nodes))):
        node = nodes[index]
        if not isinstance(node, Dispatch) or not is_annotated(node):
            return None
        reads, writes = node.spans
        if tracker.find(reads, writes) is not None:
            return index if tracker.find([], writes) is None else None
    return None


def _clear(nodes: list[CapturedNode], at: int, second: int) -> bool:
    """Whether the first dispatch could run in place of the second: nothing in between overwrites its inputs."""
    first = nodes[at]
    assert isinstance(first, Dispatch)
    needed = MemRanges()
    needed.record([each.span for each in first.reads], [])
    later = [node for node in nodes[at + 1 : second + 1] if isinstance(node, Dispatch)]
    return all(needed.find([], [each.span for each in node.writes]) is None for node in later)


def _read_later(nodes: list[CapturedNode], second: int, written: BufferRange) -> bool:
    """Whether a dispatch after the second reads the intermediate result before it is overwritten."""
    tracker = MemRanges()
    tracker.record([], [written.span])
    for node in nodes[second + 1 :]:
        if isinstance(node, Dispatch):
            if not is_annotated(node) or tracker.find([each.span for each in node.reads], []) is not None:
                return True
            if written.span in [each.span for each in node.writes]:
                return False
    return False


def _buffer_at(node: Dispatch, given: BufferRange) -> MlxBuffer | None:
    bound = [each.value for each in node.bindings if isinstance(each.value, MlxBuffer)]
    return next((buffer for buffer in bound if buffer.span == given.span), None)
