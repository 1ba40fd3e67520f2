"""Interleaves private arrays by lane, so that accesses become vectors.

An element of `s` bytes at byte `o` moves to byte `32 * o + lane * s` of one array for all lanes, an alloca with the
flag "shared". This requires accesses of known sizes; arrays whose address escapes are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...abi import WIDTH
from .layout import size_of, stored_bytes, terms
from .maker import Maker, integer
from .model import (
    I8,
    I32,
    I64,
    POINTER,
    VOID,
    ArrayType,
    Instruction,
    IntType,
    IrConstant,
    IrFunction,
    Value,
    uses,
)

_COPIES = ("llvm.memcpy.p0.p0.i64", "llvm.memmove.p0.p0.i64")
_FILL = "llvm.memset.p0.i64"
_MOST_PIECES = 256


@dataclass(eq=False)
class _Array:
    """An alloca and all its uses; `unit` is the size of its smallest access."""

    alloca: Instruction
    bytes: int
    unit: int = 8
    addresses: list[Instruction] = field(default_factory=list)
    accesses: list[Instruction] = field(default_factory=list)
    calls: list[Instruction] = field(default_factory=list)

    @property
    def pointers(self) -> list[Value]:
        return [self.alloca, *self.addresses]


def rewrite(function: IrFunction) -> None:
    """Rewrites the function in place."""
    used = uses(function)
    arrays = []
    for inst in function.entry.instructions:
        if inst.opcode == "alloca" and not inst.operands and inst.element is not None:
            array = _collect(inst, used)
            if array is not None:
                arrays.append(array)
    arrays = _agreed(arrays)
    if arrays:
        _Rewriter(function, arrays).run()


def _collect(alloca: Instruction, used: dict[Value, list[Instruction]]) -> _Array | None:
    """None where some use is beyond loads, stores and copies of constant size."""
    assert alloca.element is not None
    array = _Array(alloca, size_of(alloca.element))
    waiting: list[Value] = [alloca]
    while waiting:
        pointer = waiting.pop()
        for user in used.get(pointer, ()):
            if user.opcode == "getelementptr" and user.operands[0] is pointer:
                array.addresses.append(user)
                waiting.append(user)
            elif user.opcode == "load" and not user.flags:
                array.accesses.append(user)
            elif user.opcode == "store" and not user.flags and user.operands[0] is not pointer:
                array.accesses.append(user)
            elif _is_known_call(user):
                array.calls.append(user)
            else:
                return None
    return array


def _is_known_call(inst: Instruction) -> bool:
    if inst.callee not in (*_COPIES, _FILL):
        return False
    known = [o for o in inst.operands[2:] if isinstance(o, IrConstant) and o.value is not None]
    filled = inst.callee != _FILL or isinstance(inst.operands[1], IrConstant) and inst.operands[1].value is not None
    return len(known) == 2 and known[1].value == 0 and filled


def _agreed(arrays: list[_Array]) -> list[_Array]:
    """Those of the arrays whose accesses fit a unit; arrays that are copied to each other share theirs."""
    owner: dict[Value, _Array] = {pointer: array for array in arrays for pointer in array.pointers}
    for array in arrays:
        sizes = [_access_bytes(inst) for inst in array.accesses] or [4]
        array.unit = min(8, *sizes)
    while True:
        smaller = [(a, min(o.unit for o in _partners(a, owner))) for a in arrays]
        if all(array.unit == unit for array, unit in smaller):
            break
        for array, unit in smaller:
            array.unit = unit
    lost = {array for array in arrays if not _fits(array)}
    while more := {a for a in arrays if a not in lost and any(o in lost for o in _partners(a, owner))}:
        lost |= more
    # A copy between an array that moves and one that stays cannot be made in pieces of one layout only.
    left = [array for array in arrays if array not in lost]
    stays = {array for array in left if any(_foreign(call, owner, left) for call in array.calls)}
    return _agreed([array for array in left if array not in stays]) if stays else left


def _access_bytes(inst: Instruction) -> int:
    return stored_bytes(inst.type if inst.opcode == "load" else inst.operands[0].type)


def _partners(array: _Array, owner: dict[Value, _Array]) -> list[_Array]:
    ends = [pointer for call in array.calls if call.callee != _FILL for pointer in call.operands[:2]]
    return [array, *(owner[pointer] for pointer in ends if pointer in owner)]


def _foreign(call: Instruction, owner: dict[Value, _Array], private: list[_Array]) -> bool:
    """Whether the other end of a copy is a thread's own array that stays as it is."""
    for pointer in call.operands[:1] if call.callee == _FILL else call.operands[:2]:
        root: Value = pointer
        while isinstance(root, Instruction) and root.opcode == "getelementptr":
            root = root.operands[0]
        if isinstance(root, Instruction) and root.opcode == "alloca" and owner.get(pointer) not in private:
            return True
    return False


def _fits(array: _Array) -> bool:
    unit = array.unit
    sizes = [_access_bytes(inst) for inst in array.accesses]
    sizes += [call.operands[2].value or 0 for call in array.calls if isinstance(call.operands[2], IrConstant)]
    steps = [array.bytes]
    for inst in array.addresses:
        constant, indices = terms(inst)
        steps += [constant, *(scale for _, scale in indices)]
    kinds = [inst.type if inst.opcode == "load" else inst.operands[0].type for inst in array.accesses]
    whole = all(getattr(kind, "bits", 0) == stored_bytes(kind) * 8 for kind in kinds)
    even = not any(number % unit for number in (*sizes, *steps))
    return whole and even and unit in (1, 2, 4, 8) and all(size // unit <= _MOST_PIECES for size in sizes)


class _Rewriter(Maker):
    def __init__(self, function: IrFunction, arrays: list[_Array]) -> None:
        super().__init__(function)
        self.arrays = arrays
        self.owner = {pointer: array for array in arrays for pointer in array.pointers}
        self.own: dict[Value, Value] = {}  # for an alloca, this lane's first element

    def run(self) -> None:
        moved = {array.alloca for array in self.arrays}
        for block in self.function.blocks:
            self.output, self.apart = [], {}
            for inst in block.instructions:
                if inst in moved:
                    self._alloca(self.owner[inst])
                elif inst.opcode == "getelementptr" and inst in self.owner:
                    self._address(inst)
                elif inst.opcode in ("load", "store"):
                    self._access(inst)
                elif inst.callee in (*_COPIES, _FILL) and any(o in self.owner for o in inst.operands[:2]):
                    self._call(inst)
                else:
                    self.output.append(inst)
            block.instructions = self.output

    def _alloca(self, array: _Array) -> None:
        inst = array.alloca
        inst.element = ArrayType(array.bytes // array.unit * WIDTH, IntType(array.unit * 8))
        inst.align, inst.flags = 64, ("shared",)
        self.output.append(inst)
        number = self.add("call", I32)
        number.callee = "__lane_number"
        own = self.add("getelementptr", POINTER, inst, self.add("zext", I64, number))
        own.element = IntType(array.unit * 8)
        self.own[inst] = own

    def pointer(self, value: Value) -> Value:
        return self.own.get(value, value)

    def _address(self, inst: Instruction) -> None:
        """The same steps, each 32 times as long."""
        constant, indices = terms(inst)
        here = self.pointer(inst.operands[0])
        for index, scale in indices:
            step = self.add("getelementptr", POINTER, here, index)
            step.element = ArrayType(scale * WIDTH, I8)
            here = step
        inst.element, inst.flags = I8, ()
        inst.operands = [here, integer(I64, constant * WIDTH)]
        self.output.append(inst)

    def _access(self, inst: Instruction) -> None:
        array = self.owner.get(inst.operands[-1])
        if array is None:
            self.output.append(inst)
            return
        pointer = self.pointer(inst.operands[-1])
        count = _access_bytes(inst) // array.unit
        if count == 1:
            inst.operands[-1], inst.align = pointer, array.unit
            self.output.append(inst)
            return
        unit = IntType(array.unit * 8)
        places = [self.address(pointer, i * array.unit * WIDTH) for i in range(count)]
        if inst.opcode == "store":
            for value, place in zip(self.parts(inst.operands[0], unit), places, strict=True):
                self._store(value, place, array.unit)
            return
        whole = IntType(array.unit * 8 * count)
        joined = self.join([self._load(unit, place, array.unit) for place in places], whole)
        # The load's name and identity go to what makes its value now.
        inst.opcode, inst.operands, inst.align = "bitcast", [joined], 0
        if inst.type == POINTER:
            inst.opcode = "inttoptr"
        self.output.append(inst)
        self.joined[inst] = self.joined[joined]

    def _load(self, kind: IntType, place: Value, align: int) -> Value:
        inst = self.add("load", kind, place)
        inst.align = align
        return inst

    def _store(self, value: Value, place: Value, align: int) -> None:
        self.output.append(Instruction("store", VOID, "", [value, place], align=align))

    def _call(self, inst: Instruction) -> None:
        target, source, length = inst.operands[:3]
        unit = next(self.owner[o].unit for o in (target, source) if o in self.owner)
        kind = IntType(unit * 8)
        assert isinstance(length, IrConstant) and length.value is not None
        count = length.value // unit
        if inst.callee == _FILL:
            assert isinstance(source, IrConstant) and source.value is not None
            byte = source.value & 255
            values: list[Value] = [
                integer(kind, _signed(int.from_bytes(bytes([byte]) * unit, "little"), unit * 8))
            ] * count
        else:
            values = [self._load(kind, *self._piece(source, i, unit, inst.attributes[1])) for i in range(count)]
        for i, value in enumerate(values):
            self._store(value, *self._piece(target, i, unit, inst.attributes[0]))

    def _piece(self, pointer: Value, index: int, unit: int, attributes: str) -> tuple[Value, int]:
        """A place of a copy and its alignment."""
        if pointer in self.owner:
            return self.address(self.pointer(pointer), index * unit * WIDTH), unit
        known = int(attributes.split()[-1]) if "align" in attributes else 1
        return self.address(pointer, index * unit), min(unit, known)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value
