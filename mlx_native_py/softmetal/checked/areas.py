"""The memory in which the runtime notes what groups touched in one area."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from . import abi, intervals
from .shadow import Runs, Words, give_back, give_leftovers_back, leftovers, zeros

_READ_ONLY = ("reads",)
_ALL = ("reads", "writes", "atomic_reads", "atomic_writes")
_LAST = ("reader", "writer", "reader_site", "writer_site")  # of the bytes whose bits are set above
_WORDS_OF_BLOCK = abi.BLOCK // 64


class AreaMemory:
    """Bitmaps of an area, by kind of access; who was last, where it is writable; and which blocks are used at all."""

    def __init__(self, area: abi.Area, writable: bool) -> None:
        self._start = area.start
        count = (area.end - area.start) // 64
        self._bits = {kind: zeros(count) for kind in (_ALL if writable else _READ_ONLY)}
        self._last = {kind: leftovers(8 * count) for kind in (_LAST if writable else ())}
        self._blocks: NDArray[np.uint8] = np.zeros(count // _WORDS_OF_BLOCK, np.uint8)
        area.blocks = self._blocks.ctypes.data
        for kind, words in {**self._bits, **self._last}.items():
            setattr(area, kind, words.ctypes.data)

    @cached_property
    def _used(self) -> Runs:
        """The blocks that something was noted of; not to be asked before the launch has ended."""
        return [(start, end) for start, end in intervals.runs_of(np.flatnonzero(self._blocks)).T.tolist()]

    def _words(self, of_block: int) -> Runs:
        return [(start * of_block, end * of_block) for start, end in self._used]

    def touched(self) -> dict[str, intervals.Intervals]:
        """The addresses by kind of access, where there are any."""
        runs = self._words(_WORDS_OF_BLOCK)
        if not runs:
            return {}
        return {kind: intervals.of_bits(words, self._start, runs) for kind, words in self._bits.items()}

    def written(self) -> Words:
        """The bits of what was written."""
        return self._bits["writes"] | self._bits["atomic_writes"]

    def give_back(self) -> None:
        """Nothing is asked any more. In this order the next ones get the same memory for the same purpose."""
        for words in reversed(self._bits.values()):
            give_back(words, self._words(_WORDS_OF_BLOCK))
        for words in reversed(self._last.values()):
            give_leftovers_back(words, self._words(8 * _WORDS_OF_BLOCK))
