"""Separate address zones for kernel arguments, so that any out-of-range index is attributed to its argument."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..pages import FIXED, MAP_FAILED, NO_ACCESS, PAGE, RESERVED, FilePages, libc, pages
from . import abi

if TYPE_CHECKING:
    from .dispatch import Window

_FIXED_NOREPLACE = 0x100000
_REMAP = 3  # MREMAP_MAYMOVE | MREMAP_FIXED; from a length of 0 it makes a second mapping of the same memory
_SIZE = abi.ZONES << abi.ZONE_SHIFT
_FIRST = 3 << abi.ZONE_SHIFT - 3  # of a zone; a signed index goes less far down than an unsigned one goes up
# Far from where systems put programs, libraries and stacks.
_STARTS = (0x1000_0000_0000, 0x0800_0000_0000, 0x1400_0000_0000)

_Key = tuple[int, int, int]


@dataclass(frozen=True)
class Apart:
    """The zones of a dispatch's arguments, by slot."""

    start: int
    table: Any
    arguments: Mapping[int, abi.ArgumentZone]


NOT_APART = Apart(0, None, {})


class Zones:
    """The zones of this process; one dispatch at a time has its arguments there.

    A buffer that is bound again keeps its zone until the zone is needed for something else, because a kernel may have
    stored a pointer to it.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self._lock = threading.Lock()
        self._table = (abi.ArgumentZone * abi.ZONES)()
        self._numbers: OrderedDict[_Key, int] = OrderedDict()  # the one not used for longest comes first
        self._free = deque(range(abi.ZONES))  # the one that rested longest comes first, for stale pointers
        self._closed: deque[tuple[int, int]] = deque()
        FilePages.closed = self._closed

    @contextmanager
    def holding(self, windows: Sequence[Window]) -> Iterator[Apart]:
        """The arguments in their zones, for the block; those that cannot be are left out."""
        with self._lock:
            while self._closed:
                self._drop(*self._closed.popleft())
            zones = {each.slot: zone for each in windows if each.slot is not None and (zone := self._zone(each))}
            yield Apart(self.start if zones else 0, self._table, zones)

    def _zone(self, window: Window) -> abi.ArgumentZone | None:
        assert window.slot is not None
        first = window.start // PAGE * PAGE
        size = pages(window.end - first)
        # Inline bytes lie in a few pages, at ever other places.
        exact = window.space == "buffer"
        key = (window.slot, window.start, window.length) if exact else (window.slot, first, size)
        number = self._numbers.get(key)
        if number is None and (number := self._map(first, size)) is None:
            return None
        self._numbers[key] = number
        self._numbers.move_to_end(key)
        zone, place = self._table[number], self._place(number)
        zone.start, zone.delta = place + window.start - first, (first - place) % 2**64
        return zone

    def _map(self, first: int, size: int) -> int | None:
        if not self._free:
            self._give_back(next(iter(self._numbers)))
        place = self._place(self._free[0])
        if _remap(first, 0, size, _REMAP, place) != place:
            _reserve(place, size)  # a refusal may leave a hole
            return None
        return self._free.popleft()

    def _place(self, number: int) -> int:
        return self.start + (number << abi.ZONE_SHIFT) + _FIRST

    def _give_back(self, key: _Key) -> None:
        number = self._numbers[key]
        _reserve(self._place(number), pages(key[1] + key[2]) - key[1] // PAGE * PAGE)
        self._table[number] = abi.ArgumentZone()
        self._free.append(self._numbers.pop(key))

    def _drop(self, address: int, length: int) -> None:
        """The memory is gone."""
        for key in [key for key in self._numbers if key[1] < address + length and address < key[1] + key[2]]:
            self._give_back(key)


def _reserve(address: int, size: int) -> None:
    libc().mmap(address, size, NO_ACCESS, RESERVED | FIXED, -1, 0)


def _remap(*arguments: int) -> int:
    function = libc().mremap
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return function(*arguments) or 0


@contextmanager
def arguments_apart(windows: Sequence[Window]) -> Iterator[Apart]:
    """For the block, each buffer and each piece of inline bytes among a dispatch's arguments in its zone."""
    known = zones()
    if known is None:
        yield NOT_APART
        return
    with known.holding([each for each in windows if each.length and each.space in ("buffer", "inline bytes")]) as apart:
        yield apart


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
