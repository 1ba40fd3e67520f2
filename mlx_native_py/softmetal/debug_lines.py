"""The line table of a shared object (DWARF 4): source line and column of each instruction."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from .msl.image import sections_of

Place = tuple[int, int]
_COPY, _ADVANCE, _LINE, _FILE, _COLUMN, _NEGATE, _BLOCK, _CONST, _FIXED = 1, 2, 3, 4, 5, 6, 7, 8, 9
_END, _SET_ADDRESS = 1, 2  # extended


class _Numbers:
    """A reader of numbers in a section."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def fixed(self, size: int, *, signed: bool = False) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little", signed=signed)

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.fixed(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        start = self.at
        value = self.unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> bits - 1 else value


def _rows(data: bytes) -> Iterator[tuple[int, Place]]:
    """Addresses at which a line begins, with its place; line 0 where instructions come from no line."""
    reader = _Numbers(data)
    while reader.at < len(data):
        end = reader.fixed(4) + reader.at
        reader.fixed(2)
        program = reader.fixed(4) + reader.at
        minimum, _, _ = reader.fixed(1), reader.fixed(1), reader.fixed(1)
        base, span, opcodes = reader.fixed(1, signed=True), reader.fixed(1), reader.fixed(1)
        lengths = [0, *(reader.fixed(1) for _ in range(opcodes - 1))]
        reader.at = program
        yield from _run(reader, end, (minimum, base, span, opcodes), lengths)


def _run(
    reader: _Numbers, end: int, shape: tuple[int, int, int, int], lengths: list[int]
) -> Iterator[tuple[int, Place]]:
    minimum, base, span, opcodes = shape
    address, line, column = 0, 1, 0
    while reader.at < end:
        opcode = reader.fixed(1)
        if opcode >= opcodes:
            address += (opcode - opcodes) // span * minimum
            line += base + (opcode - opcodes) % span
            yield address, (line, column)
        elif opcode == 0:
            size = reader.unsigned()
            after, kind = reader.at + size, reader.fixed(1)
            if kind == _SET_ADDRESS:
                address = reader.fixed(size - 1)
            elif kind == _END:
                yield address, (0, 0)
                address, line, column = 0, 1, 0
            reader.at = after
        elif opcode == _COPY:
            yield address, (line, column)
        elif opcode == _ADVANCE:
            address += reader.unsigned() * minimum
        elif opcode == _LINE:
            line += reader.signed()
        elif opcode == _COLUMN:
            column = reader.unsigned()
        elif opcode == _CONST:
            address += (255 - opcodes) // span * minimum
        elif opcode == _FIXED:
            address += reader.fixed(2)
        else:
            for _ in range(lengths[opcode]):
                reader.unsigned()


@lru_cache(maxsize=64)
def _table(path: Path) -> tuple[list[int], list[Place]]:
    data = path.read_bytes()
    tables = [data[each.offset : each.offset + each.size] for each in sections_of(data) if each.name == ".debug_line"]
    rows = sorted(row for section in tables for row in _rows(section))
    return [address for address, _ in rows], [place for _, place in rows]


def line_before(path: Path, offset: int) -> Place | None:
    """Where the instruction that ends at an offset of an image comes from; None where that is not known."""
    try:
        addresses, places = _table(path)
    except (OSError, ValueError, IndexError):
        return None
    index = bisect.bisect_right(addresses, offset - 1) - 1
    return places[index] if index >= 0 and places[index][0] else None
