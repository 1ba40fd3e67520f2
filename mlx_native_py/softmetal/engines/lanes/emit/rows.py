"""Emits groups of adjacent accesses: each lane accesses a row at once, and rows are transposed.

A row of up to 8 bytes is one integer per lane, split or combined by shifts. A row of 16 bytes is four words per lane;
those of eight lanes are transposed in registers.
"""

from __future__ import annotations

from ..analysis.groups import AccessGroup, accessed, pointer_of
from ..analysis.shape import VARYING, WIDTH
from ..ir.maker import scalar_of
from ..ir.model import I32, Instruction, IntType, Scalar
from .access import read, write
from .address import Address, address_of, safe_pointers
from .frame import Frame, numbers
from .outline import outlined

_WORDS = f"<{WIDTH} x i32>"
_COLUMNS = f"{{ {', '.join([_WORDS] * 4)} }}"
_EIGHT = "<8 x i32>"
_ROW = "<4 x i32>"
# Interleaves the lower, or the upper, halves of two registers of twice four words.
_LOW = "<8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>"
_HIGH = "<8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>"
_BOTH = "<8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>"


def load_group(frame: Frame, inst: Instruction, group: AccessGroup) -> None:
    """The first load of a group that is met makes all of them."""
    if inst not in frame.memo:
        address, kind = _start(frame, inst, group), scalar_of(inst.type)
        unit, align = _unit(group), min(member.align for member in group.members)
        if len(group.members) * group.size == 16:
            columns = _load_rows(frame, address, align)
        else:
            columns = [read(frame, unit, address, align)]
        count = unit.bits // kind.bits
        for i, member in enumerate(group.members):
            frame.memo[member] = _part(frame, columns[i // count], unit, i % count, kind)
    frame.define(inst, frame.memo[inst])


def store_group(frame: Frame, inst: Instruction, group: AccessGroup) -> None:
    """Made at the last store of a group, when all its values are there."""
    address, unit = _start(frame, inst, group), _unit(group)
    count = unit.bits // (group.size * 8)
    columns = [
        _whole(frame, group.members[i : i + count], unit, group.size * 8) for i in range(0, len(group.members), count)
    ]
    align = min(member.align for member in group.members)
    if len(columns) == 4:
        _store_rows(frame, columns, address, align)
    else:
        write(frame, unit, columns[0], address, align)


def _unit(group: AccessGroup) -> IntType:
    """The integer that a row, or a quarter of a long one, is."""
    size = len(group.members) * group.size
    return I32 if size == 16 else IntType(size * 8)


def _start(frame: Frame, inst: Instruction, group: AccessGroup) -> Address:
    return address_of(frame, pointer_of(inst)).moved(frame, -group.distance(inst))


def _part(frame: Frame, column: str, unit: IntType, index: int, kind: Scalar) -> str:
    """Element `index` of the integers in a column."""
    whole, narrow = f"<{WIDTH} x {unit}>", f"<{WIDTH} x i{kind.bits}>"
    if index:
        column = frame.let("high", f"lshr {whole} {column}, splat ({unit} {index * kind.bits})")
    if unit.bits != kind.bits:
        column = frame.let("part", f"trunc {whole} {column} to {narrow}")
    if isinstance(kind, IntType):
        return column
    return frame.let("part", f"bitcast {narrow} {column} to <{WIDTH} x {kind}>")


def _whole(frame: Frame, members: list[Instruction], unit: IntType, bits: int) -> str:
    """The integers that hold the values of some stores, the first one lowest."""
    whole, narrow = f"<{WIDTH} x {unit}>", f"<{WIDTH} x i{bits}>"
    total = ""
    for i, member in enumerate(members):
        value = accessed(member)
        text = frame.vector(value)
        if not isinstance(value.type, IntType):
            text = frame.let("plain", f"bitcast <{WIDTH} x {value.type}> {text} to {narrow}")
        if unit.bits != bits:
            text = frame.let("wide", f"zext {narrow} {text} to {whole}")
        if i:
            text = frame.let("high", f"shl {whole} {text}, splat ({unit} {i * bits})")
            text = frame.let("whole", f"or {whole} {total}, {text}")
        total = text
    return total


def _rows(frame: Frame, address: Address) -> list[str]:
    """A pointer for each lane."""
    if frame.full and not address.shape.varying:
        return address.of_lanes(frame)
    pointers = safe_pointers(frame, address)
    return [frame.let("row", f"extractelement <{WIDTH} x ptr> {pointers}, i64 {i}") for i in range(WIDTH)]


def _shuffle(frame: Frame, kind: str, left: str, right: str, mask: str) -> str:
    return frame.let("turn", f"shufflevector {kind} {left}, {kind} {right}, {mask}")


def _transpose(frame: Frame, rows: list[str]) -> list[str]:
    """Of four registers, each with the rows of lanes i and i + 4: words become lanes, and the other way round."""
    for _ in range(2):
        rows = [_shuffle(frame, _EIGHT, rows[i], rows[i + 2], mask) for i in range(2) for mask in (_LOW, _HIGH)]
    return rows


def _safe(frame: Frame, address: Address) -> Address:
    """The address as one that all lanes may use."""
    return address if frame.full else Address(safe_pointers(frame, address), VARYING)


def _load_rows(frame: Frame, address: Address, align: int) -> list[str]:
    if not frame.writer.is_large:
        return _columns(frame, address, align)

    def loaded(own: Frame, where: Address) -> str:
        made = "poison"
        for i, column in enumerate(_columns(own, where, align)):
            made = own.let("made", f"insertvalue {_COLUMNS} {made}, {_WORDS} {column}, {i}")
        return made

    made = outlined(frame, ("load rows", align), _safe(frame, address), _COLUMNS, loaded)
    return [frame.let("column", f"extractvalue {_COLUMNS} {made}, {i}") for i in range(4)]


def _columns(frame: Frame, address: Address, align: int) -> list[str]:
    rows = [frame.let("row", f"load {_ROW}, ptr {row}, align {align}") for row in _rows(frame, address)]
    columns: list[list[str]] = [[], [], [], []]
    for first in range(0, WIDTH, 8):
        pairs = [_shuffle(frame, _ROW, rows[i], rows[i + 4], _BOTH) for i in range(first, first + 4)]
        for column, part in zip(columns, _transpose(frame, pairs), strict=True):
            column.append(part)
    return [_joined(frame, column) for column in columns]


def _joined(frame: Frame, parts: list[str]) -> str:
    """Four times eight lanes as one vector."""
    sixteen = f"<16 x i32> {numbers(I32, range(16))}"
    left = _shuffle(frame, _EIGHT, parts[0], parts[1], sixteen)
    right = _shuffle(frame, _EIGHT, parts[2], parts[3], sixteen)
    return _shuffle(frame, "<16 x i32>", left, right, f"{_WORDS} {numbers(I32, range(WIDTH))}")


def _store_rows(frame: Frame, columns: list[str], address: Address, align: int) -> None:
    if not frame.writer.is_large:
        _store_columns(frame, columns, address, align)
        return

    def stored(own: Frame, where: Address) -> str:
        _store_columns(own, [f"%given{i}" for i in range(4)], where, align)
        return ""

    given = tuple((_WORDS, column) for column in columns)
    outlined(frame, ("store rows", align), _safe(frame, address), "void", stored, given)


def _store_columns(frame: Frame, columns: list[str], address: Address, align: int) -> None:
    rows = _rows(frame, address)
    for first in range(0, WIDTH, 8):
        mask = f"{_EIGHT} {numbers(I32, range(first, first + 8))}"
        parts = [_shuffle(frame, _WORDS, column, "poison", mask) for column in columns]
        for i, pair in enumerate(_transpose(frame, parts)):
            for lane, start in ((first + i, 0), (first + i + 4, 4)):
                half = f"{_ROW} {numbers(I32, range(start, start + 4))}"
                text = _shuffle(frame, _EIGHT, pair, "poison", half)
                frame.emit(f"store {_ROW} {text}, ptr {rows[lane]}, align {align}")
