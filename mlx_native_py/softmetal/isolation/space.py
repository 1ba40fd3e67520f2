"""The address range shared with helpers: device memory and kernel code."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from functools import lru_cache
from weakref import ref

from ...errors import DeviceNotFound
from ..memory import MemoryArena
from ..pages import MAP_FAILED, NO_ACCESS, PAGE, RESERVED, FilePages, libc, pages

IMPORT_BYTES = 1 << 16
CODE_BYTES = 1 << 32
_FIXED_NOREPLACE = 0x100000
# Far from where systems put programs, libraries and stacks, so that helpers have these addresses free too; below the
# zones of checked mode.
_STARTS = (0x0800_0000_0000, 0x1000_0000_0000, 0x2000_0000_0000)
_SIZES = (1 << 43, 1 << 40, 1 << 36)

Change = tuple[int, int, int, int]
"""Address, length, offset in the file, and whether the pages are open now."""


class IsolationUnavailable(DeviceNotFound):
    """This system cannot run kernels in separate processes."""


class SharedSpace:
    """One address range, mapped at the same place in helpers: imports first, then code, then device memory."""

    def __init__(self) -> None:
        self.start, self.size = _reserve_range()
        self.imports = self.start
        self.code = self.start + IMPORT_BYTES
        self.code_file = os.memfd_create("soft-metal-code")
        self.pages = SharedPages(self.code + CODE_BYTES, self.start + self.size)
        self._code_end = 0
        self._lock = threading.RLock()

    def place_code(self, length: int) -> int:
        """Reserves `length` bytes for an image and answers their offset in the file of code."""
        size = pages(length)
        with self._lock:
            offset, self._code_end = self._code_end, self._code_end + size
            if self._code_end > CODE_BYTES:
                raise IsolationUnavailable(f"more than {CODE_BYTES} bytes of kernels in one process")
            os.ftruncate(self.code_file, self._code_end)
        return offset


class SharedPages(FilePages):
    """Device memory that is shared with helpers."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__()
        self._next, self._end = start, end
        self._listeners: list[ref[deque[Change]]] = []  # of the helpers that are left

    def reserve(self, length: int) -> int | None:
        with self._lock:
            if length > self._end - self._next:
                return None
            start, self._next = self._next, self._next + length
            return start

    def open(self, address: int, length: int) -> bool:
        with self._lock:
            if not super().open(address, length):
                return False
            self._tell((address, *self._opened[address], 1))
            return True

    def close(self, address: int, length: int) -> bool:
        with self._lock:
            known = self._opened.get(address)
            if known is None:
                return True
            if not super().close(address, length):
                return False
            self._tell((address, *known, 0))
            return True

    def listen(self) -> deque[Change]:
        """All that a new helper has to map, to which later changes are added."""
        with self._lock:
            known = [(address, length, offset, 1) for address, (length, offset) in list(self._opened.items())]
            changes = deque(known)
            self._listeners = [each for each in self._listeners if each() is not None] + [ref(changes)]
            return changes

    def _tell(self, change: Change) -> None:
        for listener in self._listeners:
            changes = listener()
            if changes is not None:
                changes.append(change)


def _reserve_range() -> tuple[int, int]:
    for size in _SIZES:
        for start in _STARTS:
            address = libc().mmap(start, size, NO_ACCESS, RESERVED | _FIXED_NOREPLACE, -1, 0)
            if address == start:
                return start, size
            if address != MAP_FAILED:
                libc().munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    raise IsolationUnavailable(
        f"no {_SIZES[-1]} addresses in one piece for an isolated device (is `ulimit -v` set?); "
        "open it without `isolated`"
    )


@lru_cache
def shared_space() -> SharedSpace:
    """The one range of this process."""
    if not hasattr(os, "memfd_create"):
        raise IsolationUnavailable("an isolated device needs Linux: its helpers are closed off by seccomp")
    return SharedSpace()


@lru_cache
def shared_arena() -> MemoryArena:
    """The memory of isolated devices."""
    return MemoryArena(shared_space().pages)


__all__ = [
    "CODE_BYTES",
    "Change",
    "IMPORT_BYTES",
    "IsolationUnavailable",
    "PAGE",
    "SharedPages",
    "SharedSpace",
    "shared_arena",
    "shared_space",
]
