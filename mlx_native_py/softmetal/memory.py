"""Device memory: whole pages followed by a guard gap; with too many allocations, small ones share pages."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from _thread import start_new_thread
from collections import deque
from contextlib import suppress
from functools import lru_cache
from itertools import repeat
from operator import call
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import ref

from .execution.atomic import one_step
from .pages import (
    HUGE,
    PAGE,
    READ_WRITE,
    FilePages,
    PageSource,
    PrivatePages,
    addresses_are_limited,
    libc,
    mappings,
    pages,
)
from .signs import Gone, sign

if TYPE_CHECKING:
    from .execution.textures import TextureShape
    from .unwritten import Unwritten

__all__ = [
    "DeviceMemory",
    "MemoryArena",
    "PAGE",
    "Places",
    "Slab",
    "allocate",
    "arena",
    "checked_arena",
    "pages",
    "view",
]

_BUFFER_WRITABLE = 0x200  # PyBUF_WRITE
_MOMENT = 0.1  # seconds in which much may be dropped, which is given back together

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.restype = ctypes.py_object
_view.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]


def view(address: int, length: int) -> memoryview:
    """Writable bytes at an address; the view keeps nothing alive."""
    result: memoryview = _view(address, length, _BUFFER_WRITABLE)
    return result


class Places:
    """Reserved addresses, growing in steps; freed ones are quarantined, so that stale pointers fault."""

    RESTING = 4096  # how many freed places rest at least

    def __init__(self, source: PageSource, most: int, step: int, unit: int = PAGE) -> None:
        self._source = source
        self._most = most
        self._step = step
        self.unit = unit
        """Places begin and end at multiples of it."""
        self._regions: list[tuple[int, int]] = []
        self._next = self._end = 0
        self.freed: deque[tuple[int, int]] = deque()
        self._holes: list[tuple[int, int]] = []

    def __contains__(self, address: int) -> bool:
        return any(base <= address < base + size for base, size in self._regions)

    def take(self, wanted: int) -> int | None:
        """An address with so many bytes behind it that nobody else has."""
        if len(self.freed) >= 2 * self.RESTING:
            self._merge(self.RESTING)
        address = self._from_holes(wanted)
        if address is None and (self._next + wanted <= self._end or self._grow(wanted)):
            address, self._next = self._next, self._next + wanted
        if address is None:
            self._merge(0)
            address = self._from_holes(wanted)
        return address

    def _grow(self, wanted: int) -> bool:
        """Reserves more, twice as much each time, or less where the system refuses."""
        lost = self.unit - PAGE  # at most, before the first place
        size = min(max(self._step, wanted + lost), self._most - sum(size for _, size in self._regions))
        while size >= wanted + lost:
            base = self._source.reserve(size)
            if base is not None:
                self._holes.append((self._next, self._end - self._next))
                self._regions.append((base, size))
                self._next, self._end = -(-base // self.unit) * self.unit, base + size
                self._step = 2 * size
                return True
            size //= 2
        return False

    def _from_holes(self, wanted: int) -> int | None:
        for index, (address, length) in enumerate(self._holes):
            if length >= wanted:
                self._holes[index] = (address + wanted, length - wanted)
                return address
        return None

    def _merge(self, resting: int) -> None:
        """Moves all but the `resting` newest freed ranges to the free list, and joins neighbours."""
        while len(self.freed) > resting:
            self._holes.append(self.freed.popleft())
        merged: list[tuple[int, int]] = []
        for address, length in sorted(hole for hole in self._holes if hole[1]):
            if merged and merged[-1][0] + merged[-1][1] == address:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((address, length))
        self._holes = merged


class Slab:
    """Cells of one size in one mapping."""

    def __init__(self, address: int, cell: int, count: int) -> None:
        self.address = address
        self.length = cell * count
        self.count = count
        self.free = deque(address + cell * i for i in range(count))


class _Lent(Gone):
    """What is to be given back when its holder is gone: where it is, and whether it is ours."""

    __slots__ = ("address", "is_ours", "length")
    address: int
    length: int
    is_ours: bool


class MemoryArena:
    """Device memory from one source of pages; thread-safe.

    What nobody refers to any more is noted by a weak reference, without a step of Python, in which CPython would lose a
    Ctrl-C; the pages are given back by the next allocation, or soon by a thread that sleeps until something is dropped.
    """

    SHARED = 1 << 20  # allocations up to this size may share a mapping
    SLAB = 1 << 20
    CELLS = 8  # that a slab has at least

    def __init__(
        self,
        source: PageSource | None = None,
        *,
        most: int = 1 << 44,
        step: int = 1 << 36,
        gap: int = 1 << 26,
        guarded: int = 0,
    ) -> None:
        self._source = source = source or PrivatePages()
        # Gaps are wide enough that an index gone astray hits no other allocation, where there are addresses for it.
        limited = addresses_are_limited()
        self._gap = PAGE if limited else gap
        # Large pages are possible only where an allocation begins at one.
        unit = PAGE if limited or gap < HUGE else HUGE
        self._places = Places(source, most, MemoryArena.SLAB if limited else step, unit)
        # Each allocation in a place of its own takes two mappings; half of all are left to others.
        self._guarded_left = guarded or mappings() // 4
        self._lock = threading.RLock()
        self._changing = threading.Lock()  # taken under the other one alone
        self._lent: set[_Lent] = set()
        self._dropped: SimpleQueue[Any] = SimpleQueue()
        self._gone: deque[_Lent] = deque()  # was dropped, and is to be given back
        self._watched = False  # whether a thread does that
        self._end = ref(self, self._dropped.put)
        self._slabs: dict[int, list[Slab]] = {}  # with free cells, by the size of a cell
        self._cells: dict[int, tuple[Slab, int]] = {}  # in use, by address
        self._unclosed: deque[tuple[int, int]] = deque()

    def __contains__(self, address: int) -> bool:
        return address in self._places

    def memory(self, length: int) -> DeviceMemory | None:
        """Zeroed device memory of its own, or None when there is no more."""
        size = pages(length)
        with self._lock:
            if self._changing.locked():  # by this thread: a finaliser or signal handler is in the middle of a change
                return self._apart(length, size)
            with self._changing:
                self._take_back()
                address = self._open(size) if self._guarded_left > 0 or size > self.SHARED else None
                if address is None and size <= self.SHARED:
                    address = self._cell(size)
                return None if address is None else self._lend(address, length, is_ours=True)

    def _apart(self, length: int, size: int) -> DeviceMemory | None:
        """The same without a look at what is being changed."""
        address = self._source.reserve(self._room(size))
        if address is None or not self._source.open(address, size):
            return None
        self._guarded_left -= 1
        return self._lend(address, length, is_ours=True)

    def over(self, address: int, length: int) -> DeviceMemory:
        """Memory of somebody else."""
        FilePages.note_closed(address, length)  # what was there before may have been unmapped, and not be dropped yet
        return self._lend(address, length, is_ours=False)

    def settle(self) -> None:
        """Gives back what was dropped. Any access to it faults from now on, unless others share its mapping."""
        with self._lock:
            if not self._changing.locked():
                with self._changing:
                    self._take_back()

    @property
    def waiting(self) -> int:
        """How many pieces of memory are dropped and not given back."""
        return len(self._gone) + self._dropped.qsize()

    def _lend(self, address: int, length: int, *, is_ours: bool) -> DeviceMemory:
        made = DeviceMemory(address, length)
        made.sign = sign()
        made.lent = lent = _Lent(made.sign, self._dropped.put)
        lent.address, lent.length, lent.is_ours = address, length, is_ours
        self._lent.add(lent)
        if not self._watched:
            with suppress(RuntimeError):  # without a thread the next allocation gives back what was dropped
                start_new_thread(_watch, (self._end, self._dropped, self._gone))
                self._watched = True
        return made

    def discard(self, memory: DeviceMemory) -> None:
        """Drops the contents of memory of its own, which is zero then."""
        if memory.lent is not None and memory.lent.is_ours:
            self._empty(memory.address, memory.length)

    def _empty(self, address: int, length: int) -> None:
        if not self._source.empty(address, pages(length)):
            ctypes.memset(address, 0, length)

    def _room(self, size: int) -> int:
        """The addresses that an allocation takes, with the gap behind it."""
        return -(-(size + self._gap) // self._places.unit) * self._places.unit

    def _open(self, size: int) -> int | None:
        address = self._places.take(self._room(size))
        if address is None:
            return None
        if not self._source.open(address, size):
            self._places.freed.append((address, self._room(size)))
            return None
        self._guarded_left -= 1
        return address

    def _close(self, address: int, size: int, *last: tuple[Any, ...]) -> None:
        """A place that cannot be closed now is not used again before it is. `last` belongs to the same step."""
        if self._source.close(address, size):
            one_step((self._places.freed.append, (address, self._room(size))), *last)
            self._guarded_left += 1
        else:
            one_step((self._unclosed.append, (address, size)), *last)

    def _take_back(self) -> None:
        """Nothing leaves one list before it is in another: Ctrl-C may come in between."""
        for _ in range(len(self._unclosed)):
            self._close(*self._unclosed[0], (self._unclosed.popleft,))
        with suppress(Empty):  # the thread took it
            self._gone.extend(map(call, repeat(self._dropped.get_nowait, self._dropped.qsize())))
        while self._gone:
            gone = self._gone[0]
            address, length = gone.address, gone.length
            last: Any = (self._lent.discard, gone), (self._gone.popleft,)
            if not gone.is_ours:
                FilePages.note_closed(address, length)
                one_step(*last)
            elif address in self._cells:
                self._free_cell(address, *last)
            else:
                self._close(address, pages(length), *last)

    def _cell(self, size: int) -> int | None:
        cell = 1 << (size - 1).bit_length()
        slabs = self._slabs.setdefault(cell, [])
        while slabs and not slabs[-1].free:  # where Ctrl-C came before it was noted
            slabs.pop()
        if not slabs:
            count = max(self.CELLS, self.SLAB // cell)
            address = self._open(cell * count)
            if address is None:
                return None
            slabs.append(Slab(address, cell, count))
        slab = slabs[-1]
        free = slab.free[0]
        one_step((self._cells.__setitem__, free, (slab, cell)), (slab.free.popleft,))
        if not slab.free:
            slabs.remove(slab)
        return free

    def _free_cell(self, address: int, *last: tuple[Any, ...]) -> None:
        slab, cell = self._cells[address]
        libc().mprotect(address, cell, READ_WRITE)  # its owner may have made it read-only
        self._empty(address, cell)
        one_step((slab.free.append, address), (self._cells.pop, address), *last)
        slabs = self._slabs[cell]
        if slab not in slabs:
            slabs.append(slab)
        if len(slab.free) == slab.count:
            slabs.remove(slab)
            self._close(slab.address, slab.length)


def _watch(arena: ref[MemoryArena], dropped: SimpleQueue[Any], gone: deque[Any]) -> None:
    """Has an arena give back what is dropped, a moment later, until it is dropped itself."""
    while True:
        gone.extend(map(call, (dropped.get,)))  # sleeps; nothing is lost between the two
        time.sleep(_MOMENT)
        alive = arena()
        if alive is None:
            return
        alive.settle()
        del alive


class DeviceMemory:
    """An allocation and whether its owner still lives; command buffers without references keep only this."""

    __slots__ = (
        "__weakref__",
        "address",
        "addressed",
        "label",
        "length",
        "lent",
        "owner",
        "sign",
        "untracked",
        "unwritten",
    )

    def __init__(self, address: int, length: int) -> None:
        self.address = address
        self.length = length
        self.label: str | None = None
        self.sign: object = None
        self.lent: _Lent | None = None  # what its arena knows of it; a part of other memory has none
        self.owner: ref[object] = ref(self)
        """The resource whose memory it is, if one is."""
        self.unwritten: Unwritten | None = None
        """Which bytes nobody has written, where checked mode wants to know."""
        self.untracked = False  # whether passes that share it need fences
        self.addressed = False
        """Whether its address was asked for, so that kernels may reach it without its being bound."""

    @property
    def live(self) -> bool:
        """Whether kernels may use it."""
        return self.owner() is not None

    def forget(self) -> None:
        """From now on the contents are not defined, and checked mode tells who reads them before they are written."""
        from .unwritten import Unwritten  # which needs numpy

        self.unwritten = Unwritten(self.address, self.length)

    def forget_texels(self, shape: TextureShape) -> None:
        """The same of a texture that the memory is of."""
        from .unwritten import UnwrittenTexels

        self.unwritten = UnwrittenTexels(self.address, shape)

    def view(self) -> memoryview:
        return view(self.address, self.length)


@lru_cache
def arena() -> MemoryArena:
    """The memory of devices whose kernels run in this process."""
    return MemoryArena()


@lru_cache
def checked_arena() -> MemoryArena:
    """The memory of checked devices, which kernels see at other addresses than the CPU."""
    return MemoryArena(FilePages()) if sys.platform == "linux" else arena()


def allocate(length: int) -> DeviceMemory | None:
    """Zeroed device memory of its own, or None when there is no more."""
    return arena().memory(length)
