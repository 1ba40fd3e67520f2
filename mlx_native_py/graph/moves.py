"""Dispatches over other memory: buffers, and what is read and written, moved together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..buffer import MlxBuffer
from ..encoder import CapturedDispatch, CapturedNode, RecordedBinding
from ..errors import InvalidArgument
from ..hazards import BufferRange, Memory

__all__ = ["Moves"]


class Moves:
    """From parts of memory to buffers that stand in for them; whatever lies inside such a part moves along."""

    def __init__(self, moves: Iterable[tuple[MlxBuffer, MlxBuffer]]) -> None:
        self._by_memory: dict[Memory, list[tuple[int, int, MlxBuffer]]] = {}
        for old, new in moves:
            memory, start, end = old.span
            self._by_memory.setdefault(memory, []).append((start, end, new))

    def node(self, node: CapturedNode) -> CapturedNode:
        """The same step over the new memory."""
        if not isinstance(node, CapturedDispatch):
            return node
        bindings = tuple(
            RecordedBinding(each.slot, self.buffer(each.value)) if isinstance(each.value, MlxBuffer) else each
            for each in node.bindings
        )
        reads, writes = tuple(map(self._range, node.reads)), tuple(map(self._range, node.writes))
        return replace(node, bindings=bindings, reads=reads, writes=writes)

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
