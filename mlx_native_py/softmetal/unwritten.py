"""Uninitialised memory, tracked byte by byte until the CPU or a kernel writes it."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
_WORD, _BITS = 8, 64
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# No CPU writes this by chance: what still holds it has not been written.
_MARK = np.uint64(0xA7F3C96B5DE18B4D)


class Unwritten:
    """Marker patterns in memory; where one has changed, the CPU has written.

    CPU writes are detected in words of 8 bytes, kernel writes byte by byte.
    """

    def __init__(self, address: int, length: int) -> None:
        self.address = address
        whole = length // _WORD
        self._memory: Words = np.ctypeslib.as_array((ctypes.c_uint64 * whole).from_address(address))
        self._memory[:] = _MARK
        self._bits: Words = np.zeros(-(-length // _BITS), np.uint64)
        self._bits.view(np.uint8)[:whole] = 0xFF
        self._all_written = False

    def bits(self, start: int, end: int) -> Words | None:
        """A bit for each byte from `start` to `end`, multiples of 64; None where all of them have been written."""
        if self._all_written:
            return None
        first, last = (start - self.address) // _BITS, (end - self.address) // _BITS
        words = self._bits[first:last]
        if not words.any():
            self._all_written = words.size == self._bits.size
            return None
        by_word = words.view(np.uint8)
        memory = self._memory[first * _WORD : first * _WORD + by_word.size]
        by_word[: memory.size][memory != _MARK] = 0
        return words if words.any() else None

    def written(self, start: int, words: Words) -> None:
        """Kernels have written the bytes that the bits from `start` on, a multiple of 64, stand for."""
        first = (start - self.address) // _BITS
        self._bits[first : first + words.size] &= ~words
