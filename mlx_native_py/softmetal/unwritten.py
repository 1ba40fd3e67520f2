"""Uninitialised memory, tracked byte by byte until the CPU or a kernel writes it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .execution.textures import TextureShape

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
        self._bits: Words = np.zeros(-(-length // _BITS), np.uint64)
        self._all_written = False
        self._mark(length)

    def _mark(self, length: int) -> None:
        whole = length // _WORD
        self._memory: Words = np.ctypeslib.as_array((ctypes.c_uint64 * whole).from_address(self.address))
        self._memory[:] = _MARK
        self._bits.view(np.uint8)[:whole] = 0xFF

    def _look(self, by_word: NDArray[np.uint8], first: int) -> None:
        """Drops the bits of what the CPU has written, of words from one of 64 bytes on."""
        memory = self._memory[first * _WORD : first * _WORD + by_word.size]
        by_word[: memory.size][memory != _MARK] = 0

    def bits(self, start: int, end: int) -> Words | None:
        """A bit for each byte from `start` to `end`, multiples of 64; None where all of them have been written."""
        if self._all_written:
            return None
        first, last = (start - self.address) // _BITS, (end - self.address) // _BITS
        words = self._bits[first:last]
        if not words.any():
            self._all_written = words.size == self._bits.size
            return None
        self._look(words.view(np.uint8), first)
        return words if words.any() else None

    def written(self, start: int, words: Words) -> None:
        """Kernels have written the bytes that the bits from `start` on, a multiple of 64, stand for."""
        first = (start - self.address) // _BITS
        self._bits[first : first + words.size] &= ~words


class UnwrittenTexels(Unwritten):
    """The same of a texture's own memory, which the CPU writes by regions only, so that it can stay zero."""

    def __init__(self, address: int, shape: TextureShape) -> None:
        self.shape = shape
        super().__init__(address, shape.end)

    def _mark(self, length: int) -> None:
        self._bits.view(np.uint8)[: -(-length // _WORD)] = 0xFF

    def _look(self, by_word: NDArray[np.uint8], first: int) -> None:
        pass

    def fill(self, rows: Iterable[int], length: int) -> None:
        """The CPU has written so many bytes from each of these places on, counted from the start."""
        by_word = self._bits.view(np.uint8)
        for start in rows:
            first, last = start // _WORD, (start + length) // _WORD
            by_word[first + 1 : last] = 0
            if first == last:
                by_word[first] &= ~_below(start + length) | _below(start)
                continue
            by_word[first] &= _below(start)
            if (start + length) % _WORD:
                by_word[last] &= ~_below(start + length)


def _below(place: int) -> np.uint8:
    """Bits of the bytes of a word that lie before a place in it."""
    return np.uint8((1 << place % _WORD) - 1)
