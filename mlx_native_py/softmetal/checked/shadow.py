"""Shadow memory: zeroed words that describe a large memory, of which a dispatch uses little."""

from __future__ import annotations

import mmap
import os
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..pages import PAGE, pages

Words = NDArray[np.uint64]
Runs = list[tuple[int, int]]
"""From where to where."""
_LARGE = 1 << 17  # bytes from which on pages are looked at one by one
_MOST_RUNS = 4096
_MOST_KEPT = 64 << 20  # bytes of pages that wait to be used again
_SMALL_PAGES = getattr(mmap, "MADV_NOHUGEPAGE", None)
_PAGEMAP = Path("/proc/self/pagemap")  # a word for each page
_TAKEN = np.uint64(3 << 62)  # in memory or swapped out
_ZERO = np.zeros(1, np.uint64)


def zeros(count: int) -> Words:
    """So many words; where they are many, a page is taken when it is touched, and no more than that."""
    return _zeroed.take(count) if _is_large(count) else np.zeros(count, np.uint64)


def give_back(words: Words, runs: Runs | None = None) -> None:
    """Nobody looks at words of `zeros` any more; those outside of the runs are zero, if any are told."""
    memory = getattr(words.base, "obj", None)
    if not isinstance(memory, _Memory):
        return
    before = memory.taken if runs is not None else 0
    if runs is None and (runs := _taken_runs(words)) is None:
        return
    for start, end in runs:
        words[start:end] = 0
    _zeroed.put(memory, before + _bytes(runs))


def leftovers(count: int) -> Words:
    """So many words with anything in them, for what is written before it is read."""
    return _leftover.take(count) if _is_large(count) else np.empty(count, np.uint64)


def give_leftovers_back(words: Words, runs: Runs) -> None:
    """Nobody looks at words of `leftovers` any more, of which the runs were used."""
    memory = getattr(words.base, "obj", None)
    if isinstance(memory, _Memory):
        _leftover.put(memory, memory.taken + _bytes(runs))


def _bytes(runs: Runs) -> int:
    """Of the pages that they lie in, at most."""
    return sum(pages(8 * (end - start)) + PAGE for start, end in runs)


def _is_large(count: int) -> bool:
    return 8 * count >= _LARGE and _SMALL_PAGES is not None


@dataclass(frozen=True)
class Touched:
    """The words of pages that were used, as runs of pages separated by zeros."""

    words: Words
    starts: NDArray[np.intp]  # of the runs, among `words`
    moved: NDArray[np.intp]  # what leads from there to where they were

    def places(self, numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where words of `words` were."""
        return numbers + self.moved[np.searchsorted(self.starts, numbers, side="right") - 1]


def touched(words: Words, runs: Runs | None = None) -> Touched:
    """What is not zero among the words, and little else; nothing outside of the runs is, if any are told."""
    if runs is None:
        runs = _taken_runs(words)
    if runs is None:
        runs = [(0, words.size)]
    firsts, lasts = np.array(runs, np.intp).reshape(-1, 2).T
    starts = np.cumsum(lasts - firsts + 1) - (lasts - firsts + 1)
    pieces = [each for start, end in runs for each in (words[start:end], _ZERO)]
    return Touched(np.concatenate([*pieces, _ZERO]), np.append(0, starts), np.append(0, firsts - starts))


class _Memory(mmap.mmap):
    """A mapping, and how many bytes of pages it has at most."""

    taken = 0


class _Kept:
    """Mappings for reuse, by size. New pages cost several times as much as clearing old ones."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[_Memory] = deque()  # what was used last comes first

    def take(self, count: int) -> Words:
        size = 1 << (8 * count - 1).bit_length()
        with self._lock:
            for memory in list(self._waiting):
                with suppress(ValueError):  # a finaliser took it
                    if len(memory) == size:
                        self._waiting.remove(memory)
                        return np.frombuffer(memory, np.uint64, count)
        memory = _Memory(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(_SMALL_PAGES or 0)
        return np.frombuffer(memory, np.uint64, count)

    def put(self, memory: _Memory, taken: int) -> None:
        memory.taken = min(len(memory), taken)
        with self._lock:
            self._waiting.appendleft(memory)
            while sum(each.taken for each in self._waiting) > _MOST_KEPT:
                self._waiting.pop()


_zeroed, _leftover = _Kept(), _Kept()


def _taken_runs(words: Words) -> Runs | None:
    """From where to where words lie in pages that have memory; None where that is not known, or they are too many."""
    address = int(words.ctypes.data)
    first = address // PAGE * PAGE
    taken = _taken(first, -(-(address + words.nbytes - first) // PAGE)) if words.nbytes >= _LARGE else None
    if taken is None:
        return None
    edges = np.flatnonzero(np.diff(taken, prepend=False, append=False))
    if edges.size > 2 * _MOST_RUNS:
        return None
    offsets = np.clip((edges * PAGE + first - address) // 8, 0, words.size)
    return list(zip(offsets[::2].tolist(), offsets[1::2].tolist(), strict=True))


def _taken(first: int, count: int) -> NDArray[np.bool_] | None:
    """For each page whether there is memory behind it; None where the system does not tell."""
    try:
        with _PAGEMAP.open("rb", 0) as file:
            told = os.pread(file.fileno(), 8 * count, first // PAGE * 8)
    except OSError:
        return None
    return np.frombuffer(told, np.uint64) & _TAKEN != 0 if len(told) == 8 * count else None
