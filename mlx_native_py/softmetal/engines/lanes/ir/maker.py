"""Creates instructions, folding those that would do nothing."""

from __future__ import annotations

from .model import (
    I1,
    I8,
    I64,
    Declined,
    FloatType,
    Instruction,
    IntType,
    IrConstant,
    IrFunction,
    PointerType,
    Scalar,
    Type,
    Value,
)
from .reader import zero


def integer(kind: Type, value: int) -> IrConstant:
    if kind == I1:
        return IrConstant(kind, "true" if value & 1 else "false", value & 1)
    return IrConstant(kind, str(value), value)


def scalar_of(kind: Type) -> Scalar:
    if not isinstance(kind, (IntType, FloatType, PointerType)):
        raise Declined(f"{kind} where a scalar was expected")
    return kind


class Maker:
    """Appends to `inst`, the instructions of the current block."""

    def __init__(self, function: IrFunction) -> None:
        self.function = function
        self.output: list[Instruction] = []
        # What a scalar was put together from, lowest bits first, and what it was taken apart to in this block.
        self.joined: dict[Value, list[Value]] = {}
        self.apart: dict[tuple[Value, int], list[Value]] = {}

    def add(
        self, opcode: str, kind: Type, *operands: Value, flags: tuple[str, ...] = (), predicate: str = ""
    ) -> Instruction:
        inst = Instruction(opcode, kind, self.function.fresh(), list(operands), flags, predicate)
        self.output.append(inst)
        return inst

    def cast(self, opcode: str, value: Value, kind: Type) -> Value:
        return value if value.type == kind else self.add(opcode, kind, value)

    def same_bits(self, value: Value, kind: Type) -> Value:
        """A scalar as another type of its size."""
        if value.type == kind:
            return value
        if isinstance(value, IrConstant) and value.undefined:
            return IrConstant(kind, value.text)
        if isinstance(value, IrConstant) and value.text in ("0", "0.0", "null"):
            return zero(kind)
        if isinstance(value.type, PointerType):
            return self.same_bits(self.cast("ptrtoint", value, I64), kind)
        if isinstance(kind, PointerType):
            return self.cast("inttoptr", self.same_bits(value, I64), kind)
        if isinstance(value, Instruction) and value.opcode == "bitcast" and value.operands[0].type == kind:
            return value.operands[0]
        return self.cast("bitcast", value, kind)

    def join(self, parts: list[Value], kind: Scalar) -> Value:
        """One scalar from the bits of several, the first one lowest."""
        if all(isinstance(part, IrConstant) and part.undefined for part in parts):
            return IrConstant(kind, parts[0].text)
        whole = IntType(kind.bits)
        bits = kind.bits // len(parts)
        total: Value | None = None
        for i, part in enumerate(parts):
            if isinstance(part, IrConstant) and part.undefined:
                continue
            wide = self.add("zext", whole, self.same_bits(part, IntType(bits)))
            shifted = self.add("shl", whole, wide, integer(whole, i * bits), flags=("nuw",)) if i else wide
            total = shifted if total is None else self.add("or", whole, total, shifted, flags=("disjoint",))
        assert total is not None
        value = self.same_bits(total, kind)
        self.joined[value] = parts
        return value

    def parts(self, value: Value, kind: Scalar) -> list[Value]:
        """The bits of a scalar as several of type `kind`, the lowest first."""
        count = scalar_of(value.type).bits // kind.bits
        known = self.joined.get(value, ())
        if len(known) != count:
            known = self.apart.get((value, count), ())
        if len(known) == count:
            return [self.same_bits(part, kind) for part in known]
        if isinstance(value, IrConstant) and value.undefined:
            return [IrConstant(kind, value.text)] * count
        whole = IntType(scalar_of(value.type).bits)
        bits = self.same_bits(value, whole)
        values: list[Value] = []
        for i in range(count):
            low = self.add("lshr", whole, bits, integer(whole, i * kind.bits)) if i else bits
            values.append(self.same_bits(self.add("trunc", IntType(kind.bits), low), kind))
        self.apart[value, count] = values
        return values

    def regroup(self, values: list[Value], kind: Scalar, count: int) -> list[Value]:
        """The bits of `values` as `count` scalars of type `kind`."""
        if len(values) == count:
            return [self.same_bits(value, kind) for value in values]
        if len(values) > count and len(values) % count == 0:
            size = len(values) // count
            return [self.join(values[i : i + size], kind) for i in range(0, len(values), size)]
        if count % len(values) == 0:
            return [part for value in values for part in self.parts(value, kind)]
        raise Declined(f"{len(values)} values of {values[0].type} as {count} of {kind}")

    def address(self, pointer: Value, offset: int) -> Value:
        if offset == 0:
            return pointer
        inst = self.add("getelementptr", pointer.type, pointer, integer(I64, offset), flags=("inbounds",))
        inst.element = I8
        return inst
