"""Maps compiled kernels into helpers. No kernel code is loaded into or run by this process."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator

from ..compiler_process import ToolchainError
from .space import SharedSpace

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<QQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_WORD = struct.Struct("<Q")
_LOADED, _TABLES = 1, 2  # kinds of segments
_STRINGS, _SYMBOLS, _HASH = 5, 6, 4  # tags
_RELOCATIONS = ((7, 8), (0x17, 2))  # tags of where they are, and of how many bytes
_RELATIVE = frozenset({8, 1027})  # on x86-64 and AArch64
_SYMBOLIC = frozenset({1, 6, 7, 257, 1025, 1026})
_WORD_MASK = (1 << 64) - 1


class ImageDamaged(ToolchainError):
    """A shared object that cannot be mapped."""


class PlacedImage:
    """A shared object mapped into the helpers."""

    def __init__(self, data: bytes, space: SharedSpace, slot_of: Callable[[str], int]) -> None:
        try:
            self._place(data, space, slot_of)
        except (struct.error, IndexError, ValueError, KeyError, StopIteration) as error:
            raise ImageDamaged(f"not a whole shared object: {error}") from error

    def address(self, name: str) -> int:
        """Where one of its functions is."""
        return self._symbols[name]

    def _place(self, data: bytes, space: SharedSpace, slot_of: Callable[[str], int]) -> None:
        segments = list(_segments(data))
        loaded = [each for each in segments if each[0] == _LOADED]
        size = max(place + length for _, _, place, _, length in loaded)
        if not 0 < size <= len(data) + (1 << 26):
            raise ImageDamaged(f"a shared object of {len(data)} bytes that takes {size} bytes of memory")
        image = bytearray(size)
        for _, offset, place, stored, _ in loaded:
            image[place : place + stored] = data[offset : offset + stored]
        offset = space.place_code(size)
        base = space.code + offset
        table = next(each for each in segments if each[0] == _TABLES)
        tags = dict(_DYNAMIC.iter_unpack(image[table[2] : table[2] + table[3]]))
        symbols = list(_symbols(image, tags))
        self._symbols = {name: base + value for name, home, value in symbols if home}
        for where, bytes_tag in _RELOCATIONS:
            start = tags.get(where, 0)
            part = image[start : start + tags.get(bytes_tag, 0)] if start else b""
            for place, info, addend in _RELOCATION.iter_unpack(part):
                value = _value(info, base, symbols, slot_of) + addend
                _WORD.pack_into(image, place, value & _WORD_MASK)
        os.pwrite(space.code_file, image, offset)


def _segments(data: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """Kind, offset in the file, place in memory, bytes in the file, bytes in memory."""
    head = _HEADER.unpack_from(data)
    start, count = head[5], head[10]
    for index in range(count):
        kind, _, offset, place, _, stored, length, _ = _SEGMENT.unpack_from(data, start + index * _SEGMENT.size)
        yield kind, offset, place, stored, length


def _symbols(image: bytearray, tags: dict[int, int]) -> Iterator[tuple[str, int, int]]:
    """Name, section (0 where it is imported) and value."""
    count = struct.unpack_from("<II", image, tags[_HASH])[1]
    for index in range(count):
        name, _, _, home, value, _ = _SYMBOL.unpack_from(image, tags[_SYMBOLS] + index * _SYMBOL.size)
        start = tags[_STRINGS] + name
        yield image[start : image.index(0, start)].decode(), home, value


def _value(info: int, base: int, symbols: list[tuple[str, int, int]], slot_of: Callable[[str], int]) -> int:
    kind = info & 0xFFFFFFFF
    if kind in _RELATIVE:
        return base
    if kind not in _SYMBOLIC:
        raise ImageDamaged(f"a relocation of kind {kind}, which kernels do not have")
    name, home, value = symbols[info >> 32]
    return base + value if home else slot_of(name)
