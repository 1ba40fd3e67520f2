"""Emits lookups in small constant tables in registers, with an index per lane.

An index out of range gives an arbitrary value, but reads no other memory.
"""

from __future__ import annotations

from ..analysis.shape import WIDTH
from ..analysis.tables import Permutation
from ..ir.layout import stored_bytes, terms
from ..ir.model import I32, Instruction, IrConstant, Type, Value
from .frame import Frame, numbers

_WORDS = f"<{WIDTH} x i32>"
MOST_REGISTERS = 2  # that one vector may take
_NOWHERE: tuple[str, Value | None, int] = "", None, 0
_PLAIN = {"half": "i16", "bfloat": "i16"}


def lookup(frame: Frame, kind: Type, pointer: Value) -> str:
    """The vector that lanes load; nothing where no table is read that fits into registers."""
    name, index, constant = _entry(frame, pointer, stored_bytes(kind)) if frame.shape(pointer).varying else _NOWHERE
    plain, size = _PLAIN.get(str(kind), str(kind)), stored_bytes(kind)
    table, how = frame.writer.tables.get(name), frame.writer.permutations.get(plain)
    if index is None or table is None or how is None or table.kind != str(kind):
        return ""
    if table.count > MOST_REGISTERS * how.entries:
        return ""
    exact = constant or size != 4 or table.count != how.entries
    places = "" if exact else _unmasked(frame, index, how.entries)
    places = places or _index(frame, index, constant // size, f"i{8 * size}")
    whole = frame.let("table", f"load <{table.count} x {plain}>, ptr {name}, align {size}")
    total = pick(frame, whole, table.count, places, plain, how)
    if plain == str(kind):
        return total
    return frame.let("entry", f"bitcast <{WIDTH} x {plain}> {total} to <{WIDTH} x {kind}>")


def pick(frame: Frame, whole: str, count: int, index: str, kind: str, how: Permutation) -> str:
    """The elements of a vector, `count` of them, at the indices of all lanes."""
    total = ""
    for first in range(0, count, how.entries):
        register = _register(frame, whole, kind, count, first, how)
        part = _permuted(frame, register, index, kind, how)
        total = _further(frame, total, part, index, kind, how) if total else part
    return total


def _entry(frame: Frame, pointer: Value, size: int) -> tuple[str, Value | None, int]:
    """An address as a name, an index that can be had in this block, and bytes after that; else nothing."""
    found: list[Value] = []
    total = 0
    while isinstance(pointer, Instruction) and pointer.opcode == "getelementptr":
        constant, indices = terms(pointer)
        total += constant
        if indices and frame.writer.analysis.home[pointer] is not frame.block or any(s != size for _, s in indices):
            return _NOWHERE
        found += [index for index, _ in indices]
        pointer = pointer.operands[0]
    return (pointer.text, found[0], total) if len(found) == 1 and total % size == 0 else _NOWHERE


def _index(frame: Frame, index: Value, added: int, kind: str) -> str:
    """Where in the table lanes read, in integers as wide as its elements."""
    text, own, wanted = frame.vector(index), f"<{WIDTH} x {index.type}>", f"<{WIDTH} x {kind}>"
    if not frame.full:
        text = frame.let("solid", f"freeze {own} {text}")
    if str(index.type) != kind:
        text = frame.let("index", f"trunc {own} {text} to {wanted}")
    return frame.let("index", f"add {wanted} {text}, splat ({kind} {added})") if added else text


def _unmasked(frame: Frame, index: Value, entries: int) -> str:
    """Words whose lowest bits are the index, for an instruction that looks at no others; nothing without a mask."""
    value = _source(frame, index, "zext")
    masked = _source(frame, value, "and", entries - 1)
    if masked is value:
        return ""
    shifted = _source(frame, masked, "lshr")
    word = _source(frame, shifted, "zext")
    if shifted is masked or word is shifted:
        return frame.vector(masked) if masked.type == I32 else ""
    count = _number(masked)
    if word.type != I32 or count is None or entries << count > 1 << 32:
        return ""
    return frame.let("shifted", f"lshr {_WORDS} {frame.vector(word)}, splat (i32 {count})")


def _source(frame: Frame, value: Value, opcode: str, number: int | None = None) -> Value:
    """What an instruction of this block was made of, if it is the one that is asked for; else the value itself."""
    if (
        not isinstance(value, Instruction)
        or value.opcode != opcode
        or frame.writer.analysis.home[value] is not frame.block
    ):
        return value
    return value.operands[0] if number is None or number == _number(value) else value


def _number(inst: Value) -> int | None:
    """The constant on the right side of an instruction."""
    right = inst.operands[1] if isinstance(inst, Instruction) else None
    return right.value if isinstance(right, IrConstant) else None


def _register(frame: Frame, whole: str, kind: str, count: int, first: int, how: Permutation) -> str:
    """The entries from `first` on, as often as the register has room for them."""
    places = [first + i % how.entries for i in range(how.lanes)]
    chosen = ", ".join(f"i32 {place if place < count else 'poison'}" for place in places)
    own = f"<{count} x {kind}>"
    return frame.let("register", f"shufflevector {own} {whole}, {own} poison, <{how.lanes} x i32> <{chosen}>")


def _permuted(frame: Frame, register: str, index: str, kind: str, how: Permutation) -> str:
    """The register's entries at all lanes' indices."""
    integer = "i32" if kind == "float" else kind
    few, indices, lanes = f"<{how.lanes} x {kind}>", f"<{how.lanes} x {integer}>", f"<{WIDTH} x {integer}>"
    frame.declare(f"declare {few} @llvm.x86.{how.name}({few}, {indices})")
    parts = []
    for first in range(0, WIDTH, how.lanes):
        mask = f"<{how.lanes} x i32> {numbers(I32, range(first, first + how.lanes))}"
        some = frame.let("some", f"shufflevector {lanes} {index}, {lanes} poison, {mask}")
        parts.append(frame.let("taken", f"call {few} @llvm.x86.{how.name}({few} {register}, {indices} {some})"))
    return frame.concatenated(parts, kind)


def _further(frame: Frame, below: str, above: str, index: str, kind: str, how: Permutation) -> str:
    """What the second register has, for indices beyond the first."""
    integer = "i32" if kind == "float" else kind
    lanes, whole = f"<{WIDTH} x {integer}>", f"<{WIDTH} x {kind}>"
    bit = frame.let("bit", f"and {lanes} {index}, splat ({integer} {how.entries})")
    test = frame.let("test", f"icmp ne {lanes} {bit}, zeroinitializer")
    return frame.let("entry", f"select <{WIDTH} x i1> {test}, {whole} {above}, {whole} {below}")
