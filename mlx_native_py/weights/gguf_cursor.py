"""Sequential reading of GGUF values, with every length checked against the rest of the file."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from ..errors import ModelFileError
from ..memory.buffer import Array

__all__ = ["Cursor", "Strings"]

# Value types by their codes; strings and arrays are handled separately.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class Strings(Sequence[str]):
    """A string array, decoded on demand; a vocabulary takes eight bytes per word until then."""

    def __init__(self, data: mmap.mmap, starts: Array) -> None:
        self._data = data
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    def raw(self, index: int) -> bytes:
        """The bytes of one string, which need not be text."""
        start = int(self._starts[index])
        (length,) = struct.unpack_from("<Q", self._data, start)
        return self._data[start + 8 : start + 8 + length]

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return self.raw(index).decode("utf-8", errors="replace")

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"<{len(self)} strings: {shown}{', ...' * (len(self) > 3)}>"


class Cursor:
    """A read position in a file, which cannot move past the end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.at = 0
        self._path = path
        self._data = data
        self._end = len(data)

    def _take(self, nbytes: int, field: str) -> int:
        """Advances; returns the previous position."""
        at = self.at
        if nbytes > self._end - at:
            raise ModelFileError(self._path, field, at, f"takes {nbytes} bytes, and {self._end - at} are left")
        self.at = at + nbytes
        return at

    def raw(self, nbytes: int, field: str) -> bytes:
        at = self._take(nbytes, field)
        return self._data[at : at + nbytes]

    def number(self, code: str, field: str) -> int:
        at = self._take(struct.calcsize(f"<{code}"), field)
        return int(struct.unpack_from(f"<{code}", self._data, at)[0])

    def count(self, least: int, field: str) -> int:
        """A number of entries that take at least this many bytes each."""
        at = self.at
        count = self.number("Q", field)
        if count * least > self._end - self.at:
            raise ModelFileError(self._path, field, at, f"{count} entries do not fit in {self._end - self.at} bytes")
        return count

    def text(self, field: str) -> str:
        at = self.at
        data = self.raw(self.number("Q", f"{field}: length"), field)
        try:
            return data.decode()
        except UnicodeDecodeError as reason:
            raise ModelFileError(self._path, field, at, f"not UTF-8: {reason}") from None

    def value(self, key: str) -> Any:
        """A value preceded by its type."""
        at = self.at
        kind = self.number("I", f"{key}: type")
        if kind == _STRING:
            return self.text(key)
        if kind == _ARRAY:
            return self._array(key)
        if kind not in _NUMBERS:
            raise ModelFileError(self._path, key, at, f"{kind} is not a type of value")
        code = _NUMBERS[kind]
        place = self._take(struct.calcsize(f"<{code}"), key)
        if code == "?":
            return self._data[place] != 0
        return struct.unpack_from(f"<{code}", self._data, place)[0]

    def _array(self, key: str) -> Array | Strings:
        at = self.at
        kind = self.number("I", f"{key}: type of elements")
        if kind == _STRING:
            return self._strings(key)
        if kind not in _NUMBERS:
            what = "arrays of arrays are not supported" if kind == _ARRAY else f"{kind} is not a type of value"
            raise ModelFileError(self._path, key, at, what)
        dtype = np.dtype(f"<{_NUMBERS[kind]}") if _NUMBERS[kind] != "?" else np.dtype(np.uint8)
        count = self.count(dtype.itemsize, f"{key}: count")
        place = self._take(count * dtype.itemsize, key)
        values: Array = np.frombuffer(self._data, dtype, count, place)
        return values.astype(np.bool_) if _NUMBERS[kind] == "?" else values

    def _strings(self, key: str) -> Strings:
        count = self.count(8, f"{key}: count")
        starts = np.empty(count, np.uint64)
        data, at, end, length_of = self._data, self.at, self._end, struct.Struct("<Q").unpack_from
        for index in range(count):
            starts[index] = at
            if at + 8 > end:
                raise ModelFileError(self._path, f"{key}[{index}]", at, "its length is beyond the end of the file")
            (length,) = length_of(data, at)
            at += 8 + length
            if at > end:
                raise ModelFileError(self._path, f"{key}[{index}]", at - length, f"{length} bytes are missing")
        self.at = at
        return Strings(data, starts)
