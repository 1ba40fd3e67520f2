"""Interval sets: sorted, disjoint ranges with fast search and insertion at any size."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

__all__ = ["IntervalSet"]


class IntervalSet:
    """A union of half-open ranges, stored as sorted boundaries in short chunks.

    In a chunk, even positions hold starts and odd positions hold ends; adjacent ranges are merged. Short chunks keep
    the cost of an insertion independent of the number of ranges.

    >>> spans = IntervalSet()
    >>> spans.add(0, 8), spans.add(16, 24), spans.add(8, 12)
    (None, None, None)
    >>> list(spans), spans.meets(12, 16), spans.meets(12, 17)
    ([(0, 12), (16, 24)], False, True)
    """

    __slots__ = ("_chunks", "_tops")
    LONGEST = 512  # boundaries in a chunk; a multiple of 4, so that halves hold whole ranges

    def __init__(self) -> None:
        self._chunks: list[list[int]] = []
        self._tops: list[int] = []  # the last boundary of each chunk

    def meets(self, start: int, end: int) -> bool:
        """Whether the set contains any byte of `[start, end)`, which must not be empty."""
        at = bisect_right(self._tops, start)
        if at == len(self._tops):
            return False
        chunk = self._chunks[at]
        place = bisect_right(chunk, start)
        return place & 1 == 1 or chunk[place] < end

    def add(self, start: int, end: int) -> None:
        """Adds `[start, end)`, which must not be empty."""
        at = bisect_left(self._tops, start)
        if at == len(self._tops):
            self._append(start, end)
            return
        chunk = self._chunks[at]
        low = bisect_left(chunk, start)
        if not low & 1:
            if end < chunk[low]:
                chunk[low:low] = (start, end)
                if len(chunk) > self.LONGEST:
                    self._split(at)
                return
            if start == chunk[low] and end <= chunk[low + 1]:
                return
        self._merge(at, low, start, end)

    def _merge(self, at: int, low: int, start: int, end: int) -> None:
        """Adds a range that touches others, the first of them in chunk `at`."""
        chunks, tops = self._chunks, self._tops
        chunk = chunks[at]
        while at + 1 < len(chunks) and chunks[at + 1][0] <= end:
            chunk += chunks.pop(at + 1)
            del tops[at]
        high = bisect_right(chunk, end, low)
        # An odd index is inside a range or at its edge, so that range is extended.
        if low & 1:
            chunk[low:high] = () if high & 1 else (end,)
        else:
            chunk[low:high] = (start,) if high & 1 else (start, end)
        tops[at] = chunk[-1]
        if len(chunk) > self.LONGEST:
            self._split(at)

    def _append(self, start: int, end: int) -> None:
        if self._chunks and len(self._chunks[-1]) < self.LONGEST:
            self._chunks[-1] += (start, end)
            self._tops[-1] = end
        else:
            self._chunks.append([start, end])
            self._tops.append(end)

    def _split(self, at: int) -> None:
        chunk, half = self._chunks[at], self.LONGEST // 2
        parts = [chunk[i : i + half] for i in range(0, len(chunk), half)]
        self._chunks[at : at + 1] = parts
        self._tops[at : at + 1] = [part[-1] for part in parts]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for chunk in self._chunks:
            yield from zip(chunk[::2], chunk[1::2], strict=True)
