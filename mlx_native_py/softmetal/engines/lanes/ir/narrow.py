"""Splits 64-bit loads and stores that only carry smaller values, such as a `float2` passed as a double."""

from __future__ import annotations

from dataclasses import dataclass

from .maker import Maker
from .model import DOUBLE, I64, VOID, Instruction, IntType, IrConstant, IrFunction, Value, uses
from .small_vectors import drop_unused

_WHOLE = 64
_PARTS = (8, 16, 32)  # bits


@dataclass(frozen=True, eq=False)
class _Parts:
    """The equally sized values at bit positions of a wider value."""

    bits: int
    places: dict[Instruction, int]  # for a load, the instructions that take a part out
    values: dict[int, Value]  # for a store, the parts themselves


def narrow(function: IrFunction) -> None:
    """Rewrites the function in place."""
    used = uses(function)
    wide: dict[Instruction, _Parts] = {}
    for inst in function.instructions():
        if inst.opcode in ("load", "store") and not inst.flags:
            kind = inst.type if inst.opcode == "load" else inst.operands[0].type
            if kind in (I64, DOUBLE):
                parts = _taken(inst, used) if inst.opcode == "load" else _joined(inst.operands[0])
                if parts is not None:
                    wide[inst] = parts
    if wide:
        _Narrower(function, wide).run()
        drop_unused(function)


def _taken(load: Instruction, used: dict[Value, list[Instruction]]) -> _Parts | None:
    """The parts of a loaded value, if nobody uses more than parts."""
    wholes: list[Instruction] = [load]
    if load.type == DOUBLE:
        wholes = used.get(load, [])
        if any(inst.opcode != "bitcast" or inst.type != I64 for inst in wholes):
            return None
    places: dict[Instruction, int] = {}
    for whole in wholes:
        for user in used.get(whole, ()):
            shifts = user.opcode == "lshr" and user.operands[0] is whole
            shift = _shift(user) if shifts else 0
            takers = used.get(user, []) if shifts else [user]
            if shift is None or shift >= _WHOLE or any(inst.opcode != "trunc" for inst in takers):
                return None
            places.update(dict.fromkeys(takers, shift))
    sizes = {inst.type.bits for inst in places if isinstance(inst.type, IntType)}
    bits = sizes.pop() if len(sizes) == 1 else 0
    fits = bits in _PARTS and not any(shift % bits for shift in places.values())
    return _Parts(bits, places, {}) if fits else None


def _shift(inst: Instruction) -> int | None:
    amount = inst.operands[1]
    return amount.value if isinstance(amount, IrConstant) else None


def _joined(value: Value) -> _Parts | None:
    """The parts that a value was put together from, if there is no gap."""
    if isinstance(value, Instruction) and value.opcode == "bitcast":
        value = value.operands[0]
    values: dict[int, Value] = {}
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if not isinstance(here, Instruction):
            return None
        place: int | None = 0
        if here.opcode == "or":
            waiting += here.operands
            continue
        if here.opcode == "shl":
            place, shifted = _shift(here), here.operands[0]
            if not isinstance(shifted, Instruction):
                return None
            here = shifted
        if here.opcode != "zext" or place is None or place in values:
            return None
        values[place] = here.operands[0]
    sizes = {part.type.bits for part in values.values() if isinstance(part.type, IntType)}
    bits = sizes.pop() if len(sizes) == 1 else 0
    whole = bits in _PARTS and sorted(values) == list(range(0, _WHOLE, bits))
    return _Parts(bits, {}, values) if whole else None


class _Narrower(Maker):
    def __init__(self, function: IrFunction, wide: dict[Instruction, _Parts]) -> None:
        super().__init__(function)
        self.wide = wide
        self.instead: dict[Value, Value] = {}

    def run(self) -> None:
        for block in self.function.blocks:
            self.output = []
            for inst in block.instructions:
                parts = self.wide.get(inst)
                if parts is None:
                    self.output.append(inst)
                elif inst.opcode == "load":
                    self._load(inst, parts)
                else:
                    self._store(inst, parts)
            block.instructions = self.output
        for inst in self.function.instructions():
            inst.operands = [self.instead.get(operand, operand) for operand in inst.operands]

    def _load(self, inst: Instruction, parts: _Parts) -> None:
        loads: dict[int, Instruction] = {}
        for place in sorted(set(parts.places.values())):
            loads[place] = self.add("load", IntType(parts.bits), self.address(inst.operands[0], place // 8))
            loads[place].align = _align(inst, place)
        self.instead.update((taker, loads[place]) for taker, place in parts.places.items())
        self.output.append(inst)  # unused now, but what used to take parts of it still names it

    def _store(self, inst: Instruction, parts: _Parts) -> None:
        for place, value in sorted(parts.values.items()):
            pointer = self.address(inst.operands[1], place // 8)
            self.output.append(Instruction("store", VOID, "", [value, pointer], align=_align(inst, place)))


def _align(inst: Instruction, place: int) -> int:
    """The alignment of a part at a bit of an access."""
    return min(inst.align, place // 8 & -(place // 8)) if place else inst.align
