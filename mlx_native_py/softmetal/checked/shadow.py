"""Zeroed words that stand for much memory, of which a dispatch touches little."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..pages import PAGE, pages

Words = NDArray[np.uint64]
_LARGE = 1 << 17  # bytes from which on pages are looked at one by one
_MOST_RUNS = 4096
_SMALL_PAGES = getattr(mmap, "MADV_NOHUGEPAGE", None)
_PAGEMAP = Path("/proc/self/pagemap")  # a word for each page
_TAKEN = np.uint64(3 << 62)  # in memory or swapped out


def zeros(count: int) -> Words:
    """So many words; where they are many, a page is taken when it is touched, and no more than that."""
    if 8 * count < _LARGE or _SMALL_PAGES is None:
        return np.zeros(count, np.uint64)
    memory = mmap.mmap(-1, pages(8 * count), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(_SMALL_PAGES)
    return np.frombuffer(memory, np.uint64, count)


def nonzero(words: Words) -> NDArray[np.intp]:
    """Where the words are that are not zero; pages that nobody touched are not looked at."""
    address = int(words.ctypes.data)
    first = address // PAGE * PAGE
    taken = _taken(first, -(-(address + words.nbytes - first) // PAGE)) if words.nbytes >= _LARGE else None
    if taken is None:
        return np.flatnonzero(words)
    edges = np.flatnonzero(np.diff(taken, prepend=False, append=False))
    if edges.size > 2 * _MOST_RUNS:
        return np.flatnonzero(words)
    offsets = np.clip((edges * PAGE + first - address) // 8, 0, words.size)
    runs = zip(offsets[::2].tolist(), offsets[1::2].tolist(), strict=True)
    found = [np.flatnonzero(words[start:end]) + start for start, end in runs]
    return np.concatenate([np.empty(0, np.intp), *found])


def _taken(first: int, count: int) -> NDArray[np.bool_] | None:
    """For each page whether there is memory behind it; None where the system does not tell."""
    try:
        with _PAGEMAP.open("rb", 0) as file:
            told = os.pread(file.fileno(), 8 * count, first // PAGE * 8)
    except OSError:
        return None
    return np.frombuffer(told, np.uint64) & _TAKEN != 0 if len(told) == 8 * count else None
