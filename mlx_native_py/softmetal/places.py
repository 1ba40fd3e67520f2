"""Reserved addresses, and mappings that allocations share."""

from __future__ import annotations

from collections import deque

from .pages import PAGE, PageSource

__all__ = ["Places", "Slab"]


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
