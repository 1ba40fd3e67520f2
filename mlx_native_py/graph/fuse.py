"""Fusion: two dispatches become one that does the work of both and leaves the same bits.

The rules are functions of the ops that know a fused form. What is checked here holds for every rule: what passes
between the two is nobody else's, and nothing in between is in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import counters
from ..encoder import CapturedDispatch, CapturedNode, CommandEncoder
from ..errors import InvalidArgument
from ..hazards.ranges import BufferRange, Span
from ..hazards.tracker import MemRanges
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Pipeline
from ..pipelines.sources import kernel_families, kernel_source
from .order import is_annotated

if TYPE_CHECKING:
    from ..device import MlxDevice

__all__ = ["Arguments", "fused", "fusion"]

LOOK_AHEAD = 64

Arguments = dict[str, Any]
"""A dispatch's arguments by the names that its kernel gives them: buffers and numbers."""
Rule = Callable[[CommandEncoder, Arguments, Arguments, MlxBuffer], bool]


@dataclass(frozen=True, slots=True)
class _Fusion:
    first: str
    second: str
    rule: Rule
    writes_between: bool
    shipped: bool


_RULES: list[_Fusion] = []


def fusion(first: str, second: str, *, writes_between: bool = False, shipped: bool = True) -> Callable[[Rule], Rule]:
    """Marks a rule: how the kernel `first`, and the kernel `second` that reads its result, are one.

    The rule gets both kernels' arguments and the buffer between them. It encodes the op that stands for both and
    answers True, or encodes nothing and answers False; an op that refuses its arguments says the same.
    `writes_between` says that the op writes that buffer as well. The kernels are those that come with this package,
    since others may have the same names; a rule with `shipped=False` is for kernels of your own.
    """

    def mark(rule: Rule) -> Rule:
        _RULES.append(_Fusion(first, second, rule, writes_between, shipped))
        return rule

    return mark


def fused(
    nodes: Sequence[CapturedNode], temporaries: Collection[Allocation], device: MlxDevice
) -> tuple[list[CapturedNode], int]:
    """The nodes with every pair replaced that a rule knows, and how many pairs that were."""
    found = list(nodes)
    count = at = 0
    hidden = {each.memory for each in temporaries if not each.memory.aliases}
    with _Recorder(device) as recorder:
        while at < len(found):
            match = _match(found, at, hidden, recorder)
            if match is None:
                at += 1
                continue
            second, replacement = match
            found[second] = replacement
            del found[at]
            count += 1
            # The new dispatch may itself be the second of a pair that begins earlier.
            at = max(0, at - LOOK_AHEAD)
    return found, count


class _Recorder:
    """An encoder on which rules encode; `take` gives the single dispatch that one of them made.

    Nothing of this counts: the dispatches that are replaced were counted when they were captured.
    """

    def __init__(self, device: MlxDevice) -> None:
        self._enc = device.command_encoder()
        counters.add(cmd_bufs=-1)
        self._sources = {kernel_source(family) for family in kernel_families()}

    def __enter__(self) -> _Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._enc.discard()

    def take(self, rule: Rule, first: Arguments, second: Arguments, between: MlxBuffer) -> CapturedDispatch | None:
        self._enc.start_capture()
        before = self._enc.tally.dispatches
        try:
            done = rule(self._enc, first, second, between)
        except InvalidArgument:
            done = False
        finally:
            nodes = self._enc.take_capture() or []
            counters.add(dispatches=before - self._enc.tally.dispatches)
        if not done or len(nodes) != 1:
            return None
        return nodes[0] if isinstance(nodes[0], CapturedDispatch) else None

    def serves(self, rule: _Fusion, first: Pipeline, second: Pipeline) -> bool:
        """Whether the rule is about these very kernels."""
        ours = not rule.shipped or all(each.origin[0].source in self._sources for each in (first, second))
        return ours and (first.name, second.name) == (rule.first, rule.second)


def _match(
    nodes: list[CapturedNode], at: int, hidden: Collection[Any], recorder: _Recorder
) -> tuple[int, CapturedDispatch] | None:
    first = nodes[at]
    if not isinstance(first, CapturedDispatch):
        return None
    rules = [rule for rule in _RULES if first.pipeline.name == rule.first]
    if not rules or len(first.writes) != 1:
        return None
    second = _next_reader(nodes, at, first.writes[0].span)
    if second is None or not _clear(nodes, at, second):
        return None
    other = nodes[second]
    assert isinstance(other, CapturedDispatch)
    own = first.writes[0].allocation in hidden and not _read_later(nodes, second, first.writes[0])
    between = _buffer_at(first, first.writes[0])
    for rule in rules:
        known = recorder.serves(rule, first.pipeline, other.pipeline)
        if between is not None and known and (own or rule.writes_between):
            made = recorder.take(rule.rule, _arguments(first), _arguments(other), between)
            if made is not None:
                return second, made
    return None


def _next_reader(nodes: list[CapturedNode], at: int, span: Span) -> int | None:
    """The next dispatch that touches the span, if it reads it whole and does not write it."""
    tracker = MemRanges()
    tracker.record([], [span])
    for index in range(at + 1, min(at + LOOK_AHEAD, len(nodes))):
        node = nodes[index]
        if not isinstance(node, CapturedDispatch) or not is_annotated(node):
            return None
        reads, writes = [each.span for each in node.reads], [each.span for each in node.writes]
        if tracker.find(reads, writes) is not None:
            return index if span in reads and tracker.find([], writes) is None else None
    return None


def _clear(nodes: list[CapturedNode], at: int, second: int) -> bool:
    """Whether the first may as well run where the second does, and read while the second writes."""
    first = nodes[at]
    assert isinstance(first, CapturedDispatch)
    needed = MemRanges()
    needed.record([each.span for each in first.reads], [])
    later = [node for node in nodes[at + 1 : second + 1] if isinstance(node, CapturedDispatch)]
    return all(needed.find([], [each.span for each in node.writes]) is None for node in later)


def _read_later(nodes: list[CapturedNode], second: int, written: BufferRange) -> bool:
    """Whether a dispatch behind the second reads what passes between the two, before it is written anew."""
    tracker = MemRanges()
    tracker.record([], [written.span])
    for node in nodes[second + 1 :]:
        if isinstance(node, CapturedDispatch):
            if not is_annotated(node) or tracker.find([each.span for each in node.reads], []) is not None:
                return True
            if written.span in [each.span for each in node.writes]:
                return False
    return False


def _buffer_at(node: CapturedDispatch, given: BufferRange) -> MlxBuffer | None:
    bound = [each.value for each in node.bindings if isinstance(each.value, MlxBuffer)]
    return next((buffer for buffer in bound if buffer.span == given.span), None)


def _arguments(node: CapturedDispatch) -> Arguments:
    found: Arguments = {}
    for each in node.bindings:
        binding = node.pipeline.buffers[each.slot]
        if binding is None:
            continue
        if isinstance(each.value, bytes) and binding.scalar is not None:
            found[binding.name] = binding.scalar.unpack(each.value)
        else:
            found[binding.name] = each.value
    return found
