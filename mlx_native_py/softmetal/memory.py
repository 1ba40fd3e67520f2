"""Device memory: pages inside one reserved range of addresses, each allocation followed by a guarded gap."""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections import deque
from functools import lru_cache

PAGE = mmap.PAGESIZE
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_NO_ACCESS = 0
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x40 if sys.platform == "darwin" else 0x4000)
_FIXED = 0x10
_RESERVE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
_MAP_FAILED = ctypes.c_void_p(-1).value
_BUFFER_WRITABLE = 0x200  # PyBUF_WRITE

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.restype = ctypes.py_object
_view.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]


def view(address: int, length: int) -> memoryview:
    """Writable bytes at an address; the view keeps nothing alive."""
    result: memoryview = _view(address, length, _BUFFER_WRITABLE)
    return result


def pages(length: int) -> int:
    """`length` rounded up to whole pages."""
    return -(-length // PAGE) * PAGE


class Arena:
    """The reserved range; freed addresses rest for long before they are used again, so that stale ones fault."""

    SIZES = tuple(1 << bits for bits in (44, 42, 40, 38, 36, 34))
    RESTING = 4096  # how many freed places rest at least

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._lock = threading.RLock()
        self.base, self.size = self._reserve()
        # Wide enough that an index gone astray hits no other allocation, narrow enough that addresses last.
        self._gap = max(PAGE, self.size >> 18)
        self._next = self.base
        self._freed: deque[tuple[int, int]] = deque()
        self._holes: list[tuple[int, int]] = []

    def _reserve(self) -> tuple[int, int]:
        for length in self.SIZES:
            address = self._libc.mmap(None, length, _NO_ACCESS, _RESERVE, -1, 0)
            if address != _MAP_FAILED:
                return address, length
        raise MemoryError(f"cannot reserve {self.SIZES[-1]} bytes of addresses")

    def __contains__(self, address: int) -> bool:
        return self.base <= address < self.base + self.size

    def allocate(self, length: int) -> int | None:
        """The address of zeroed pages, or None when there are no more.

        Linux gives a process some 65000 mappings; each allocation takes two, because of its guard page.
        """
        wanted = pages(length) + self._gap
        with self._lock:
            address = self._place(wanted)
        if address is None:
            return None
        if self._libc.mprotect(address, pages(length), _READ_WRITE):
            self._freed.append((address, wanted))
            return None
        return address

    def free(self, address: int, length: int) -> None:
        """Gives the pages back; from now on any access to them faults."""
        self._libc.mmap(address, pages(length), _NO_ACCESS, _RESERVE | _FIXED, -1, 0)
        self._freed.append((address, pages(length) + self._gap))

    def discard(self, address: int, length: int) -> None:
        """Drops the contents, keeping the pages usable and zeroed."""
        self._libc.mmap(address, pages(length), _READ_WRITE, _RESERVE | _FIXED, -1, 0)

    def _place(self, wanted: int) -> int | None:
        if len(self._freed) >= 2 * self.RESTING:
            self._merge(self.RESTING)
        address = self._from_holes(wanted)
        if address is not None:
            return address
        if self._next + wanted <= self.base + self.size:
            self._next += wanted
            return self._next - wanted
        self._merge(0)
        return self._from_holes(wanted)

    def _from_holes(self, wanted: int) -> int | None:
        for index, (address, length) in enumerate(self._holes):
            if length >= wanted:
                self._holes[index] = (address + wanted, length - wanted)
                return address
        return None

    def _merge(self, resting: int) -> None:
        """Makes the oldest freed places usable again."""
        while len(self._freed) > resting:
            self._holes.append(self._freed.popleft())
        merged: list[tuple[int, int]] = []
        for address, length in sorted(hole for hole in self._holes if hole[1]):
            if merged and merged[-1][0] + merged[-1][1] == address:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((address, length))
        self._holes = merged


@lru_cache
def arena() -> Arena:
    """The one range of this process."""
    return Arena()


class Allocation:
    """Some device memory and whether it is still there; command buffers without references keep only this."""

    __slots__ = ("address", "length", "label", "live", "_owned")

    def __init__(self, address: int, length: int, *, owned: bool) -> None:
        self.address = address
        self.length = length
        self.label: str | None = None
        self.live = True
        self._owned = owned

    def release(self) -> None:
        """Gives owned pages back, once."""
        if self.live:
            self.live = False
            if self._owned:
                arena().free(self.address, self.length)

    def view(self) -> memoryview:
        return view(self.address, self.length)


def allocate(length: int) -> Allocation | None:
    """Zeroed device memory of its own, or None when there is no more."""
    address = arena().allocate(length)
    return None if address is None else Allocation(address, length, owned=True)
