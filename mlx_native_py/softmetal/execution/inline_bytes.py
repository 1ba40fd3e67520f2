"""Memory for setBytes: chunks of device memory that command buffers borrow until completion."""

from __future__ import annotations

import sys

from ..memory import MemoryArena

CHUNK = 1 << 16
STEP = 64  # the strictest alignment of any argument


class Chunk:
    """Device memory that is returned when it is no longer referenced."""

    __slots__ = ("allocation", "view")

    def __init__(self, arena: MemoryArena) -> None:
        allocation = arena.memory(CHUNK)
        if allocation is None:
            raise MemoryError("no memory left for inline bytes")
        self.allocation = allocation
        self.view = allocation.view()

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing() and hasattr(self, "allocation"):
            self.allocation.release()


class InlineBytes:
    """Bytes that live as long as their command buffer runs."""

    __slots__ = ("_address", "_arena", "_chunks", "_next", "_pool", "_view")

    def __init__(self, arena: MemoryArena, pool: list[Chunk]) -> None:
        self._arena = arena
        self._pool = pool
        self._chunks: list[Chunk] = []
        self._next = CHUNK

    def store(self, data: bytes | memoryview) -> int:
        """Copies `data` and returns where it is."""
        start = self._next
        end = start + len(data)
        if end > CHUNK:
            self._begin(self._borrow())
            start, end = 0, len(data)
        self._view[start:end] = data
        self._next = end + STEP - 1 & -STEP
        return self._address + start

    def release(self) -> None:
        """Gives the chunks back; the command buffer is done with them."""
        self._next = CHUNK
        chunks = self._chunks
        while chunks:
            self._pool.append(chunks.pop())

    def _begin(self, chunk: Chunk) -> None:
        self._next = CHUNK  # nothing fits where an exception comes before the end
        self._chunks.append(chunk)
        self._address, self._view = chunk.allocation.address, chunk.view

    def _borrow(self) -> Chunk:
        try:
            return self._pool.pop()
        except IndexError:
            return Chunk(self._arena)
