"""Addresses for a kernel's arguments: each in a zone of its own, so that any index of it is known as its own."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from ..pages import FIXED, MAP_FAILED, NO_ACCESS, PAGE, RESERVED, libc, pages
from . import abi

if TYPE_CHECKING:
    from .dispatch import Window

_FIXED_NOREPLACE = 0x100000
_REMAP = 3  # MREMAP_MAYMOVE | MREMAP_FIXED; from a length of 0 it makes a second mapping of the same memory
_SIZE = abi.ZONES << abi.ZONE_SHIFT
# Far from where systems put programs, libraries and stacks.
_STARTS = (0x3000_0000_0000, 0x4000_0000_0000, 0x0400_0000_0000)

Seen = tuple[int, int]
"""Where a kernel sees the start of an argument, and what has to be added for the address of the memory itself."""


class Zones:
    """The zones of this process; one dispatch at a time has its arguments there."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._lock = threading.Lock()

    @contextmanager
    def holding(self, arguments: Sequence[tuple[int, int, int]]) -> Iterator[dict[int, Seen]]:
        """Maps slot, address and length of arguments for the block; those that cannot be are left out."""
        with self._lock:
            mapped: list[tuple[int, int]] = []
            try:
                yield {each[0]: seen for each in arguments if (seen := self._map(*each, mapped))}
            finally:
                for address, size in mapped:
                    libc().mmap(address, size, NO_ACCESS, RESERVED | FIXED, -1, 0)

    def _map(self, slot: int, address: int, length: int, mapped: list[tuple[int, int]]) -> Seen | None:
        first = address // PAGE * PAGE
        size = pages(address + length - first)
        middle = self.start + (slot << abi.ZONE_SHIFT) + (1 << abi.ZONE_SHIFT - 1)
        mapped.append((middle, size))
        if _remap(first, 0, size, _REMAP, middle) != middle:
            libc().mmap(middle, size, NO_ACCESS, RESERVED | FIXED, -1, 0)  # a refusal may leave a hole
            return None
        return middle + address - first, first - middle


def _remap(*arguments: int) -> int:
    function = libc().mremap
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return function(*arguments) or 0


@contextmanager
def arguments_apart(windows: Sequence[Window]) -> Iterator[dict[int, Seen]]:
    """For the block, each buffer and each piece of inline bytes among a dispatch's arguments in its zone."""
    known = zones()
    if known is None:
        yield {}
        return
    bound = [each for each in windows if each.length and each.space in ("buffer", "inline bytes")]
    with known.holding([(each.slot, each.start, each.length) for each in bound if each.slot is not None]) as seen:
        yield seen


@lru_cache
def zones() -> Zones | None:
    """None where the system has no such addresses to spare; then addresses alone tell the argument."""
    if sys.platform != "linux":
        return None
    for start in _STARTS:
        address = libc().mmap(start, _SIZE, NO_ACCESS, RESERVED | _FIXED_NOREPLACE, -1, 0)
        if address == start:
            return Zones(start)
        if address != MAP_FAILED:
            libc().munmap(ctypes.c_void_p(address), ctypes.c_size_t(_SIZE))
    return None
