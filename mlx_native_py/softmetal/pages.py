"""Pages of this process: reserved, opened, closed and emptied; and how many the system gives."""

from __future__ import annotations

import ctypes
import mmap
import resource
import sys
from functools import lru_cache
from pathlib import Path
from typing import Protocol

PAGE = mmap.PAGESIZE
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
NO_ACCESS = 0
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x40 if sys.platform == "darwin" else 0x4000)
FIXED = 0x10
RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
MAP_FAILED = ctypes.c_void_p(-1).value
_DONT_NEED, _REMOVE = 4, 9
_USUAL_MAPPINGS = 65530  # of Linux


def pages(length: int) -> int:
    """`length` rounded up to whole pages."""
    return -(-length // PAGE) * PAGE


@lru_cache
def libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


class PageSource(Protocol):
    """Where an arena has its pages from."""

    def reserve(self, length: int) -> int | None:
        """Addresses that fault, or None; no memory is taken, and none is promised."""
        ...

    def open(self, address: int, length: int) -> bool:
        """Makes reserved pages usable; they are zero. False where the system has no more memory or mappings."""
        ...

    def close(self, address: int, length: int) -> bool:
        """Gives the memory of pages back; from now on they fault. False where it did not work: ask again later."""
        ...

    def empty(self, address: int, length: int) -> bool:
        """Drops the contents; the pages stay usable and are zero."""
        ...


class PrivatePages:
    """Pages of this process alone."""

    def reserve(self, length: int) -> int | None:
        address: int = libc().mmap(None, length, NO_ACCESS, RESERVED, -1, 0)
        return None if address == MAP_FAILED else address

    def open(self, address: int, length: int) -> bool:
        return not libc().mprotect(address, length, READ_WRITE)

    def close(self, address: int, length: int) -> bool:
        if libc().mmap(address, length, NO_ACCESS, RESERVED | FIXED, -1, 0) != MAP_FAILED:
            return True
        # Without a mapping to spare, what there is can still be changed.
        return self.empty(address, length) and not libc().mprotect(address, length, NO_ACCESS)

    def empty(self, address: int, length: int) -> bool:
        if sys.platform == "darwin":  # where the advice may be ignored
            return bool(libc().mmap(address, length, READ_WRITE, RESERVED | FIXED, -1, 0) != MAP_FAILED)
        return not libc().madvise(address, length, _DONT_NEED)


class AliasablePages(PrivatePages):
    """Pages that can be seen at a second address as well."""

    def open(self, address: int, length: int) -> bool:
        flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NO_RESERVE | FIXED
        return bool(libc().mmap(address, length, READ_WRITE, flags, -1, 0) != MAP_FAILED)

    def close(self, address: int, length: int) -> bool:
        return bool(libc().mmap(address, length, NO_ACCESS, RESERVED | FIXED, -1, 0) != MAP_FAILED)

    def empty(self, address: int, length: int) -> bool:
        return not libc().madvise(address, length, _REMOVE)


def addresses_are_limited() -> bool:
    """Whether the process may have only so many addresses (`ulimit -v`)."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def mappings() -> int:
    """How many mappings the system gives a process."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return _USUAL_MAPPINGS
