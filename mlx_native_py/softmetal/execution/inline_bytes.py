"""Memory for setBytes: chunks of device memory that command buffers borrow until completion."""

from __future__ import annotations

from ctypes import memmove
from mmap import PROT_READ
from threading import RLock

from ..memory import MemoryArena
from ..pages import READ_WRITE, libc
from .atomic import one_step

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


class Constants:
    """Short bytes that command buffers share, since most come again with every call. A kernel that writes there, by a
    cast or a stray index, faults: it would change what later command buffers read."""

    __slots__ = ("_adding", "_cells", "_chunk", "places")

    def __init__(self, arena: MemoryArena) -> None:
        self._adding = RLock()
        self._chunk = Chunk(arena)
        self._cells = iter(range(0, CHUNK, STEP))
        self.places: dict[bytes, int] = {}
        """Where the bytes are that have been added."""

    def add(self, data: bytes) -> int | None:
        """Copies up to STEP bytes and returns where they are; None if there is no more room."""
        start = next(self._cells, None)
        if start is None:
            return None
        address, protect = self._chunk.allocation.address, libc().mprotect
        with self._adding:  # one step, since a signal handler may add some too
            one_step(
                (protect, address, CHUNK, READ_WRITE),
                (memmove, address + start, data, len(data)),
                (protect, address, CHUNK, PROT_READ),
            )
        place = self.places[data] = address + start
        return place


class InlineStore:
    """What the command buffers of a device have for inline bytes: chunks that none of them uses, and constants.

    `shares` is whether there are constants: not where another process runs the kernels, which may write everywhere.
    """

    __slots__ = ("arena", "chunks", "constants", "shares")

    def __init__(self, arena: MemoryArena, *, shares: bool) -> None:
        self.arena = arena
        self.shares = shares
        self.chunks: list[Chunk] = []
        self.constants: Constants | None = None


class InlineBytes:
    """Bytes that live as long as their command buffer runs: what its `constants` do not have yet."""

    __slots__ = ("_address", "_constants", "_next", "_store", "_view", "chunks")

    def __init__(self, store: InlineStore, constants: Constants | None) -> None:
        self._store = store
        self._constants = constants
        self.chunks: list[Chunk] = []
        self._next = CHUNK

    def store(self, data: bytes) -> int:
        """Copies `data`, unless it is there already, and returns where it is."""
        if len(data) <= STEP and self._store.shares:
            constants = self._constants or self._first_constants()
            place = constants.places.get(data) or self._add_constant(constants, data)
            if place is not None:
                return place
        start = self._next
        end = start + len(data)
        if end > CHUNK:
            self._begin(self._borrow())
            start, end = 0, len(data)
        self._view[start:end] = data
        self._next = end + STEP - 1 & -STEP
        return self._address + start

    def _first_constants(self) -> Constants:
        store = self._store
        if store.constants is None:
            store.constants = Constants(store.arena)
        self._constants = store.constants
        return self._constants

    def _add_constant(self, constants: Constants, data: bytes) -> int | None:
        place = constants.add(data)
        if place is None and self._store.constants is constants:
            self._store.constants = None  # the next command buffer begins anew
        return place

    def release(self) -> None:
        """Gives the chunks back; the command buffer is done with them."""
        self._next = CHUNK
        chunks = self.chunks
        while chunks:
            self._store.chunks.append(chunks.pop())

    def _begin(self, chunk: Chunk) -> None:
        self._next = CHUNK  # nothing fits where an exception comes before the end
        self.chunks.append(chunk)
        self._address, self._view = chunk.allocation.address, chunk.view

    def _borrow(self) -> Chunk:
        try:
            return self._store.chunks.pop()
        except IndexError:
            return Chunk(self._store.arena)
