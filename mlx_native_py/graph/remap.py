"""Rebinding: moves dispatches to other buffers, together with the ranges they read and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ..dtypes import DType
from ..encoder import CapturedNode, Dispatch
from ..errors import InvalidArgument
from ..hazards.ranges import BufferRange, Memory
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from .recording import Recording, check_binding

__all__ = ["BufferRemap", "rebound", "whole_allocation"]

R = TypeVar("R", bound=Recording)


class BufferRemap:
    """Maps ranges of memory to replacement buffers; views inside such a range move along."""

    def __init__(self, moves: Iterable[tuple[MlxBuffer, MlxBuffer]]) -> None:
        self._by_memory: dict[Memory, list[tuple[int, int, MlxBuffer]]] = {}
        for old, new in moves:
            memory, start, end = old.span
            self._by_memory.setdefault(memory, []).append((start, end, new))

    def node(self, node: CapturedNode) -> CapturedNode:
        """The same node over the new memory."""
        if not isinstance(node, Dispatch):
            return node
        values = tuple(self.buffer(each) if isinstance(each, MlxBuffer) else each for each in node.values)
        reads, writes = tuple(map(self._range, node.reads)), tuple(map(self._range, node.writes))
        bound = {each.allocation.memory for each in node.values if isinstance(each, MlxBuffer)}
        for old, new in zip((*node.reads, *node.writes), (*reads, *writes), strict=True):
            if old is not new and old.allocation not in bound:
                raise InvalidArgument(
                    f"kernel {node.pipeline.label!r} accesses {old.allocation} by address, so it cannot be replaced"
                )
        declared = tuple(map(self.buffer, node.declared))
        return replace(node, values=values, reads=reads, writes=writes, declared=declared)

    def buffer(self, buffer: MlxBuffer) -> MlxBuffer:
        """A buffer or view in its new place."""
        memory, start, end = buffer.span
        target = self._target(memory, start, end)
        if target is None:
            return buffer
        first, new = target
        return MlxBuffer(new.allocation, buffer.dtype, buffer.shape, new.offset + start - first, buffer.nbytes)

    def _range(self, given: BufferRange) -> BufferRange:
        target = self._target(*given.span)
        if target is None:
            return given
        first, new = target
        memory, base, _ = new.span
        return BufferRange(memory, base + given.start - first, base + given.end - first, given.role)

    def _target(self, memory: Memory, start: int, end: int) -> tuple[int, MlxBuffer] | None:
        for first, last, new in self._by_memory.get(memory, ()):
            if first <= start and end <= last:
                return first, new
            if start < last and first < end:
                raise InvalidArgument(
                    f"bytes {start - memory.address}..{end - memory.address} of {memory} are used, of which only "
                    f"{first - memory.address}..{last - memory.address} are to be replaced"
                )
        return None


def whole_allocation(allocation: Allocation) -> MlxBuffer:
    """A buffer of bytes over an entire allocation."""
    return MlxBuffer(allocation, DType.U8, (allocation.nbytes,), 0, allocation.nbytes)


def rebound(recording: R, names: Mapping[str, MlxBuffer]) -> R:
    """The recording with named buffers replaced."""
    for name, new in names.items():
        check_binding(recording.names, name, new)
    remap = BufferRemap((recording.names[name], new) for name, new in names.items())
    nodes = [remap.node(node) for node in recording.nodes]
    if any(recording.changes.values()):
        _check_apart(recording.nodes, nodes)
    kept = {name: names.get(name, remap.buffer(buffer)) for name, buffer in recording.names.items()}
    return type(recording)(
        recording.device, nodes, names=kept, temporaries=recording.all_temporaries, changes=recording.changes
    )


def _check_apart(before: Sequence[CapturedNode], after: Sequence[CapturedNode]) -> None:
    """Raises if ranges that were distinct now share bytes and one is written: the order was made for the old ones."""
    pairs = dict.fromkeys(
        pair for nodes in zip(before, after, strict=True) for pair in zip(*map(_ranges, nodes), strict=True)
    )
    moved = [pair for pair in pairs if pair[0] != pair[1]]
    for old, new in moved:
        for other_old, other_new in pairs:
            if new.conflicts_with(other_new) and not old.conflicts_with(other_old):
                raise InvalidArgument(
                    f"{new.allocation} would stand in for two buffers that this graph was optimised to keep apart; "
                    "bind first, then optimise"
                )


def _ranges(node: CapturedNode) -> tuple[BufferRange, ...]:
    return (*node.reads, *node.writes) if isinstance(node, Dispatch) else ()
