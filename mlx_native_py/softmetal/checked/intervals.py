"""Sets of byte addresses as sorted, disjoint, half-open intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .shadow import Runs, touched

Addresses = NDArray[np.uint64]
Span = tuple[int, int]
_NONE: Addresses = np.empty(0, np.uint64)
_BYTES_OF_WORD = 64


@dataclass(frozen=True, eq=False)
class Intervals:
    """Bytes `starts[i] <= address < ends[i]` for each i."""

    starts: Addresses
    ends: Addresses

    def __bool__(self) -> bool:
        return self.starts.size > 0

    def spans(self) -> list[Span]:
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def overlap(self, other: Intervals) -> Span | None:
        """The first bytes that both have, or None."""
        if not self or not other or self.ends[-1] <= other.starts[0] or other.ends[-1] <= self.starts[0]:
            return None
        index = np.searchsorted(other.ends, self.starts, side="right")
        mine = np.flatnonzero(index < other.ends.size)
        mine = mine[other.starts[index[mine]] < self.ends[mine]]
        if not mine.size:
            return None
        first, theirs = mine[0], index[mine[0]]
        return int(max(self.starts[first], other.starts[theirs])), int(min(self.ends[first], other.ends[theirs]))

    def __or__(self, other: Intervals) -> Intervals:
        if not self or not other:
            return self or other
        starts = np.concatenate([self.starts, other.starts])
        ends = np.concatenate([self.ends, other.ends])
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(ends[order])
        first = np.concatenate([[True], starts[1:] > reach[:-1]])
        last = np.concatenate([first[1:], [True]])
        return Intervals(starts[first], reach[last])

    def moved(self, base: int, unit: int) -> Intervals:
        """As units of so many bytes behind an address."""
        return Intervals(*(each * np.uint64(unit) + np.uint64(base) for each in (self.starts, self.ends)))

    def without(self, span: Span) -> Intervals:
        """All bytes but those of `span`."""
        low, high = np.uint64(span[0]), np.uint64(span[1])
        below = Intervals(self.starts[self.starts < low], np.minimum(self.ends[self.starts < low], low))
        above = Intervals(np.maximum(self.starts[self.ends > high], high), self.ends[self.ends > high])
        return below | above


EMPTY = Intervals(_NONE, _NONE)


def of(*spans: Span) -> Intervals:
    """The union of some spans."""
    result = EMPTY
    for start, end in spans:
        if start < end:
            result |= Intervals(np.array([start], np.uint64), np.array([end], np.uint64))
    return result


def of_bits(words: Addresses, base: int, runs: Runs | None = None) -> Intervals:
    """The set bits of a bitmap whose first bit stands for address `base`; nothing is outside of the runs, if told."""
    return _of_words(words, np.uint64(0xFFFFFFFFFFFFFFFF), _bits, runs).moved(base, 1)


def of_bytes(words: Addresses, base: int, unit: int = 1) -> Intervals:
    """The bytes that are 1 in words of eight, each for `unit` bytes, of which the first stands for address `base`."""
    return _of_words(words, np.uint64(0x0101010101010101), _bytes).moved(base, unit)


def _bits(words: Addresses) -> NDArray[np.uint8]:
    return np.unpackbits(words.view(np.uint8), bitorder="little")


def _bytes(words: Addresses) -> NDArray[np.uint8]:
    return words.view(np.uint8)


def _of_words(
    words: Addresses, whole: np.uint64, flags: Callable[[Addresses], NDArray[np.uint8]], given: Runs | None = None
) -> Intervals:
    """Runs of whole words, and runs within the others, of which `flags` tells the bytes that count."""
    some = touched(words, given)
    if not some.words.any():
        return EMPTY
    full = some.words == whole
    starts, ends = _edges(full)
    per_word = _BYTES_OF_WORD if flags is _bits else 8
    runs = some.places(starts) * per_word, (some.places(ends - 1) + 1) * per_word
    others = np.flatnonzero((some.words != 0) & ~full)
    numbers = np.flatnonzero(flags(some.words[others]))
    parts = runs_of(some.places(others)[numbers // per_word] * per_word + numbers % per_word)
    return Intervals(*np.array(runs, np.uint64)) | Intervals(*parts)


def _edges(flags: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The starts and the ends of the runs of set flags; the last one is not set."""
    changes = np.flatnonzero(flags[1:] != flags[:-1]) + 1
    changes = np.append(0, changes) if flags[0] else changes
    return changes[::2], changes[1::2]


def runs_of(numbers: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Row 0 the starts and row 1 the ends of the runs of consecutive numbers."""
    if not numbers.size:
        return np.empty((2, 0), np.uint64)
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    starts = numbers[np.concatenate([[0], breaks + 1])]
    ends = numbers[np.concatenate([breaks, [numbers.size - 1]])] + 1
    return np.array([starts, ends], np.uint64)


def within(bytes_: Intervals, spans: Sequence[Span]) -> Intervals:
    """The bytes that lie in some of the spans."""
    inside = EMPTY
    for low, high in spans:
        inside |= bytes_.without((0, low)).without((high, 1 << 63))
    return inside
