"""Pages of this process: reserve, commit, protect and discard, and system limits."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import sys
import threading
from collections import deque
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Protocol

from .execution.atomic import one_step

PAGE = mmap.PAGESIZE
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
NO_ACCESS = 0
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x40 if sys.platform == "darwin" else 0x4000)
FIXED = 0x10
RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
MAP_FAILED = ctypes.c_void_p(-1).value
HUGE = 1 << 21  # a large page: of large memory the processor cannot remember where all small ones are
_LARGE = 1 << 22  # what is smaller may be one of very many, of which little is used
_DONT_NEED, _REMOVE, _HUGE_PAGES = 4, 9, 14
_USUAL_MAPPINGS = 65530  # of Linux
_MOST_CLOSED = 4096


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
    """Provides pages to an arena."""

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
    """Pages private to this process."""

    def reserve(self, length: int) -> int | None:
        address: int = libc().mmap(None, length, NO_ACCESS, RESERVED, -1, 0)
        return None if address == MAP_FAILED else address

    def open(self, address: int, length: int) -> bool:
        if libc().mprotect(address, length, READ_WRITE):
            return False
        if sys.platform == "linux" and length >= _LARGE:
            libc().madvise(address, length, _HUGE_PAGES)  # a wish: small pages serve as well
        return True

    def close(self, address: int, length: int) -> bool:
        if libc().mmap(address, length, NO_ACCESS, RESERVED | FIXED, -1, 0) != MAP_FAILED:
            return True
        # Without a mapping to spare, what there is can still be changed.
        return self.empty(address, length) and not libc().mprotect(address, length, NO_ACCESS)

    def empty(self, address: int, length: int) -> bool:
        if sys.platform == "darwin":  # where the advice may be ignored
            return bool(libc().mmap(address, length, READ_WRITE, RESERVED | FIXED, -1, 0) != MAP_FAILED)
        return not libc().madvise(address, length, _DONT_NEED)


class FilePages(PrivatePages):
    """Pages in an anonymous file, which other processes can map."""

    closed: ClassVar[deque[tuple[int, int]] | None] = None
    """Addresses and lengths, for whoever keeps second mappings."""

    def __init__(self) -> None:
        self.file = os.memfd_create("soft-metal-memory")
        self._file_end = 0
        self._unused: dict[int, list[int]] = {}  # offsets in the file, by length
        self._opened: dict[int, tuple[int, int]] = {}
        self._emptied: set[int] = set()  # of these, before they are closed
        self._lock = threading.RLock()  # reentrant, because the garbage collector may free memory anywhere
        os.register_at_fork(after_in_child=self._leave)

    def open(self, address: int, length: int) -> bool:
        with self._lock:
            try:
                offset = self._take(length)
            except OSError:  # files have a limit (`ulimit -f`)
                return False
            if libc().mmap(address, length, READ_WRITE, mmap.MAP_SHARED | FIXED, self.file, offset) == MAP_FAILED:
                self._unused.setdefault(length, []).append(offset)
                return False
            self._opened[address] = length, offset
            return True

    def close(self, address: int, length: int) -> bool:
        with self._lock:
            if address not in self._opened:
                return True
            self.note_closed(address, length)
            if address not in self._emptied:  # by a call that an exception ended
                if not self.empty(address, length):
                    return False
                self._emptied.add(address)
            if libc().mmap(address, length, NO_ACCESS, RESERVED | FIXED, -1, 0) == MAP_FAILED:
                return False
            unused, offset = self._unused.setdefault(length, []), self._opened[address][1]
            one_step((self._opened.pop, address), (unused.append, offset), (self._emptied.discard, address))
            return True

    @classmethod
    def note_closed(cls, address: int, length: int) -> None:
        """Tells whoever keeps second mappings that something else may be at these addresses soon."""
        if cls.closed is None:
            return
        cls.closed.append((address, length))
        if len(cls.closed) > _MOST_CLOSED:  # where nobody asks for long, one line says it all
            cls.closed.append((0, 1 << 64))
            with suppress(IndexError):
                while len(cls.closed) > 1:
                    cls.closed.popleft()

    def empty(self, address: int, length: int) -> bool:
        return not libc().madvise(address, length, _REMOVE)

    def _take(self, length: int) -> int:
        unused = self._unused.get(length)
        if unused:
            return unused.pop()
        offset = self._file_end
        self._file_end = end = offset + length  # first, for whoever asks inside of this: a finaliser or signal handler
        try:
            os.ftruncate(self.file, self._file_end)
        except OSError:
            if self._file_end == end:
                self._file_end = offset
            raise
        return offset

    def _leave(self) -> None:
        """Has a forked child keep to itself what it writes."""
        for address, (length, offset) in list(self._opened.items()):
            libc().mmap(address, length, READ_WRITE, mmap.MAP_PRIVATE | FIXED, self.file, offset)


def addresses_are_limited() -> bool:
    """Whether the process may have only so many addresses (`ulimit -v`)."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def mappings() -> int:
    """How many mappings the system gives a process."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return _USUAL_MAPPINGS
