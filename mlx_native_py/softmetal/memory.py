"""Device memory: whole pages followed by a guard gap; with too many allocations, small ones share pages."""

from __future__ import annotations

import atexit
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
from .places import Places, Slab
from .process import is_forked
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
_EXIT_SECONDS = 1.0
_MOMENT = 0.1  # seconds in which much may be dropped, which is given back together

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.restype = ctypes.py_object
_view.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]


def view(address: int, length: int) -> memoryview:
    """Writable bytes at an address; the view keeps nothing alive."""
    result: memoryview = _view(address, length, _BUFFER_WRITABLE)
    return result


class _Lent(Gone):
    """What is to be given back when its holder is gone: where it is, and whether it is ours."""

    __slots__ = ("address", "is_ours", "length")
    address: int
    length: int
    is_ours: bool


_Step = tuple[Any, ...]
_Steps = tuple[_Step, ...]
_Found = tuple[int, _Steps]  # an address, and what to do in the step that gives it an owner


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
        self.lock = threading.RLock()
        """Devices take it for their accounts too: a finaliser inside may need those, and would wait for another one."""
        self._changing = threading.Lock()  # taken under the other one alone
        self._lent: set[_Lent] = set()
        self._dropped: SimpleQueue[Any] = SimpleQueue()
        self._gone: deque[_Lent] = deque()  # was dropped, and is to be given back
        self._watched = False  # whether a thread does that
        self._end = ref(self, self._dropped.put)
        self._slabs: dict[int, list[Slab]] = {}  # with free cells, by the size of a cell
        self._cells: dict[int, tuple[Slab, int]] = {}  # in use, by address
        self._unclosed: deque[tuple[int, int]] = deque()  # taken, and without an owner

    def __contains__(self, address: int) -> bool:
        return address in self._places

    def memory(self, length: int) -> DeviceMemory | None:
        """Zeroed device memory of its own, or None when there is no more."""
        size = pages(length)
        with self.lock:
            if self._changing.locked():  # by this thread: a finaliser or signal handler is in the middle of a change
                made = self._owned(length, self._opened(self._source.reserve(self._room(size)), size))
            else:
                with self._changing:
                    self._take_back()
                    made = self._owned(length, self._found(size))
        return made

    def _found(self, size: int) -> _Found | None:
        found = self._open(size) if self._guarded_left > 0 or size > self.SHARED else None
        return self._cell(size) if found is None and size <= self.SHARED else found

    def _owned(self, length: int, found: _Found | None) -> DeviceMemory | None:
        return None if found is None else self._lend(found[0], length, *found[1], is_ours=True)

    def over(self, address: int, length: int) -> DeviceMemory:
        """Memory of somebody else."""
        FilePages.note_closed(address, length)  # what was there before may have been unmapped, and not be dropped yet
        with self.lock:
            lent = self._lend(address, length, is_ours=False)
        return lent

    def settle(self) -> None:
        """Gives back what was dropped. Any access to it faults from now on, unless others share its mapping."""
        with self.lock:
            if not self._changing.locked():
                with self._changing:
                    self._take_back()

    @property
    def waiting(self) -> int:
        """How many pieces of memory are dropped and not given back."""
        return len(self._gone) + self._dropped.qsize()

    def _lend(self, address: int, length: int, *last: _Step, is_ours: bool) -> DeviceMemory:
        """`last` says that it has an owner, in the step that gives it one."""
        if not self._watched:
            self._watch()
        made = DeviceMemory(address, length)
        made.sign = sign()
        made.lent = lent = _Lent(made.sign, self._dropped.put)
        lent.address, lent.length, lent.is_ours = address, length, is_ours
        one_step((self._lent.add, lent), *last)
        return made

    def _watch(self) -> None:
        """Starts the thread; without one the next allocation gives back what was dropped."""
        self._watched = True
        try:
            start_new_thread(_give_back, (self._end, self._dropped, self._gone))
        except (RuntimeError, MemoryError):
            self._watched = False

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

    def _open(self, size: int) -> _Found | None:
        return self._opened(self._places.take(self._room(size)), size)

    def _opened(self, address: int | None, size: int) -> _Found | None:
        """Pages of their own. Until they have an owner they are to be closed, whatever happens."""
        if address is None:
            return None
        self._guarded_left -= 1
        self._unclosed.append((address, size))
        return (address, ((self._unclosed.remove, (address, size)),)) if self._source.open(address, size) else None

    def _close(self, address: int, size: int, *last: _Step) -> None:
        """A place that cannot be closed now is not used again before it is. `last` belongs to the same step."""
        if self._source.close(address, size):
            one_step((self._places.freed.append, (address, self._room(size))), *last)
            self._guarded_left += 1
        else:
            one_step((self._unclosed.append, (address, size)), *last)

    def _take_back(self) -> None:
        """Nothing leaves one list before it is in another: Ctrl-C may come in between."""
        with suppress(Empty):  # the thread took it
            self._gone.extend(map(call, repeat(self._dropped.get_nowait, self._dropped.qsize())))
        while self._gone:
            gone = self._gone[0]
            if gone not in self._lent:  # an exception came before it was lent
                self._gone.popleft()
                continue
            address, length = gone.address, gone.length
            last: Any = (self._lent.discard, gone), (self._gone.popleft,)
            if not gone.is_ours:
                FilePages.note_closed(address, length)
                one_step(*last)
            elif address in self._cells:
                self._free_cell(address, *last)
            else:
                self._close(address, pages(length), *last)
        for _ in range(len(self._unclosed)):
            self._close(*self._unclosed[0], (self._unclosed.popleft,))

    def _cell(self, size: int) -> _Found | None:
        cell = 1 << (size - 1).bit_length()
        slabs = self._slabs.setdefault(cell, [])
        if not slabs:
            count = max(self.CELLS, self.SLAB // cell)
            found = self._open(cell * count)
            if found is None:
                return None
            one_step((slabs.append, Slab(found[0], cell, count)), *found[1])
        slab = slabs[-1]
        free = slab.free[0]
        last: _Steps = (self._cells.__setitem__, free, (slab, cell)), (slab.free.popleft,)
        return free, (*last, (slabs.remove, slab)) if len(slab.free) == 1 else last

    def _free_cell(self, address: int, *last: _Step) -> None:
        slab, cell = self._cells[address]
        libc().mprotect(address, cell, READ_WRITE)  # its owner may have made it read-only
        self._empty(address, cell)
        slabs, steps = self._slabs[cell], [(slab.free.append, address), (self._cells.pop, address), *last]
        if len(slab.free) + 1 == slab.count:
            steps += [(slabs.remove, slab), (self._unclosed.append, (slab.address, slab.length))]
        elif not slab.free:
            steps.append((slabs.append, slab))
        one_step(*steps)


def _give_back(arena: ref[MemoryArena], dropped: SimpleQueue[Any], gone: deque[Any]) -> None:
    """Has an arena give back what is dropped, a moment later, until it is dropped itself."""
    while True:
        gone.extend(map(call, (dropped.get,)))  # sleeps; nothing is lost between the two
        time.sleep(_MOMENT)
        alive = arena()
        if alive is None:
            return
        with _giving_back:
            alive.settle()
        del alive


_giving_back = threading.Lock()


def _rest() -> None:
    """At exit, where Python stops threads wherever they are: here they hold no lock that finalisers may still want."""
    if not is_forked():
        _giving_back.acquire(timeout=_EXIT_SECONDS)


atexit.register(_rest)


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
