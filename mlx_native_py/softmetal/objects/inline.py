"""Room for setBytes: chunks of device memory that command buffers borrow until they are done."""

from __future__ import annotations

from ..memory import Allocation, allocate

CHUNK = 1 << 16
STEP = 64  # the strictest alignment of any argument


class InlineBytes:
    """Bytes that live as long as their command buffer runs."""

    def __init__(self, pool: list[Allocation]) -> None:
        self._pool = pool
        self._chunks: list[Allocation] = []
        self._next = CHUNK
        self._address = 0
        self._view = memoryview(b"")

    def store(self, data: bytes | memoryview) -> int:
        """Copies `data` and returns where it is."""
        start, length = self._next, len(data)
        if start + length > CHUNK:
            chunk = self._borrow()
            self._chunks.append(chunk)
            self._address, self._view = chunk.address, chunk.view()
            start = 0
        self._view[start : start + length] = data
        self._next = start + (length + STEP - 1) // STEP * STEP
        return self._address + start

    def release(self) -> None:
        """Gives the chunks back; the command buffer is done with them."""
        chunks, self._chunks, self._next = self._chunks, [], CHUNK
        self._pool.extend(chunks)

    def _borrow(self) -> Allocation:
        try:
            return self._pool.pop()
        except IndexError:
            chunk = allocate(CHUNK)
        if chunk is None:
            raise MemoryError("no memory left for inline bytes")
        return chunk
