"""Rules for the lane shape of an instruction's result, given those of its operands."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from ..ir import layout
from ..ir.model import Instruction, IntType, IrConstant, PointerType, Type
from . import shape
from .shape import UNIFORM, VARYING, LaneShape

_BITWISE: dict[str, Callable[[int, int], int]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def bits_of(kind: Type) -> int:
    """The width of an integer or pointer, 0 for anything else."""
    if isinstance(kind, IntType):
        return kind.bits
    return 64 if isinstance(kind, PointerType) else 0


def result(inst: Instruction, shapes: Sequence[LaneShape], *, address: bool) -> LaneShape:
    """`address` says that the result only serves to compute addresses."""
    rule = _RULES.get(inst.opcode)
    if rule is None or not bits_of(inst.type):
        return plain(shapes)
    known = rule(inst, shapes)
    # An index of 32 bits that wraps around within the lanes is nobody's address; one of 8 or 16 bits may well be.
    if known is None and address and inst.opcode in ("zext", "sext") and _is_index(inst, shapes[0]):
        return shapes[0]
    if known is not None and known.known and isinstance(inst.type, PointerType):
        return shape.unknown(known.offsets or (), 1, 0)
    return known or plain(shapes)


def _is_index(inst: Instruction, one: LaneShape) -> bool:
    bits = bits_of(inst.operands[0].type)
    return bits >= 32 and one.spread < 1 << bits >> 1


def plain(shapes: Sequence[LaneShape]) -> LaneShape:
    """For operations that keep nothing but equality."""
    return UNIFORM if all(s.uniform for s in shapes) else VARYING


def _add(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape:
    return shape.add(shapes[0], shapes[1], bits_of(inst.type))


def _sub(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape:
    return shape.add(shapes[0], shapes[1], bits_of(inst.type), -1)


def _mul(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape | None:
    left, right = shapes
    bits = bits_of(inst.type)
    if left.known and right.known:
        return shape.lanewise(shapes, bits, bits, operator.mul)
    for one, other in ((left, right), (right, left)):
        if one.base is not None and one.uniform:
            return shape.scale(other, one.base, bits)
    if left.uniform and right.uniform:
        even = left.residue == right.residue == 0
        return shape.unknown(shape.ALIKE, left.multiple * right.multiple, 0, bits) if even else None
    for one, stride, times in ((left, inst.operands[1], right), (right, inst.operands[0], left)):
        if one.offsets is not None and one.stride is None and times.uniform and not isinstance(stride, IrConstant):
            return shape.strided(UNIFORM, stride, one.offsets)
    return None


def _shl(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape | None:
    bits = bits_of(inst.type)
    if shapes[0].known and shapes[1].known:
        return shape.lanewise(shapes, bits, bits, lambda a, b: a << b if b < bits else 0)
    count = shapes[1]
    if count.base is not None and count.uniform and count.base < bits:
        return shape.scale(shapes[0], 1 << count.base, bits)
    return None


def _bitwise(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape | None:
    left, right = shapes
    bits = bits_of(inst.type)
    work = _BITWISE[inst.opcode]
    if left.known and right.known:
        return shape.lanewise(shapes, bits, bits, work)
    for one, other in ((left, right), (right, left)):
        if one.base is not None and one.uniform:
            result = shape.bitwise(work, other, one.base)
            if not result.varying:
                return result
    if "disjoint" in inst.flags:
        return shape.add(left, right, bits)
    return None


def _shift_right(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape | None:
    bits = bits_of(inst.type)
    count = shapes[1]
    half = 1 << bits >> 1
    signed = inst.opcode == "ashr"
    if shapes[0].known and count.known:
        return shape.lanewise(
            shapes, bits, bits, lambda a, b: (a - 2 * half if signed and a >= half else a) >> min(b, bits - 1)
        )
    if signed and shapes[0].multiple > half:
        return None
    if count.base is not None and count.uniform and count.base < bits:
        shifted = shape.shift_right(shapes[0], count.base)
        return None if shifted.varying else shifted
    return None


def _divide(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape | None:
    bits = bits_of(inst.type)
    if not shapes[1].known or not all(shapes[1].values(bits)):
        return None
    if shapes[0].known:
        return shape.lanewise(shapes, bits, bits, operator.floordiv if inst.opcode == "udiv" else operator.mod)
    divisor = shapes[1].base
    if divisor is None or not shapes[1].uniform or divisor & (divisor - 1):
        return None
    if inst.opcode == "urem":
        return shape.bitwise(operator.and_, shapes[0], divisor - 1)
    return shape.shift_right(shapes[0], divisor.bit_length() - 1)


def _trunc(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape:
    return shape.narrow(shapes[0], bits_of(inst.type))


def _extend(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape | None:
    """A sum that wraps around does not stay a sum in more bits; None leaves the choice to the caller."""
    one = shapes[0]
    source, target = bits_of(inst.operands[0].type), bits_of(inst.type)
    if one.varying:
        return VARYING
    if one.base is not None:
        half = 1 << source >> 1
        signed = inst.opcode == "sext"
        values = [v - (1 << source) if signed and v >= half else v for v in one.values(source)]
        return shape.known([v % (1 << target) for v in values], target)
    if one.uniform:
        return shape.unknown(shape.ALIKE, min(one.multiple, 1 << source), one.residue, target)
    if one.stride is not None:
        return None
    natural = inst.opcode == "zext" and "nneg" in inst.flags and _is_index(inst, one)
    if one.low_bits() is not None or natural:
        assert one.offsets is not None
        return shape.unknown(one.offsets, min(one.multiple, 1 << source), one.residue, target)
    return None


def _same(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape:
    source, target = bits_of(inst.operands[0].type), bits_of(inst.type)
    if source == target or shapes[0].uniform:
        return shapes[0] if source == target else UNIFORM
    return shape.narrow(shapes[0], target) if source > target else VARYING


def _address(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape:
    constant, indices = layout.terms(inst)
    by_operand = dict(zip(inst.operands, shapes, strict=True))
    total = shape.add(shapes[0], shape.constant(constant, 64), 64)
    for index, size in indices:
        if bits_of(index.type) != 64 and not by_operand[index].uniform:
            return VARYING
        total = shape.add(total, shape.scale(by_operand[index], size, 64), 64)
    return total


def _select(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape:
    condition, yes, no = shapes
    if condition.uniform or yes == no and yes.known:
        return shape.merge(yes, no)
    if condition.known and yes.known and no.known:
        bits = bits_of(inst.type)
        lanes = zip(condition.values(1), yes.values(bits), no.values(bits), strict=True)
        return shape.known([a if c else b for c, a, b in lanes], bits)
    return VARYING


_ORDER: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _compare(inst: Instruction, shapes: Sequence[LaneShape]) -> LaneShape | None:
    left, right = shapes
    bits = bits_of(inst.operands[0].type)
    if not bits or left.varying or right.varying:
        return None
    predicate = inst.predicate
    if left.known and right.known:
        order = _ORDER[predicate[-2:]]
        sign = 1 << bits >> 1 if predicate[0] == "s" else 0
        return shape.lanewise(shapes, bits, 1, lambda a, b: int(order(a ^ sign, b ^ sign)))
    if predicate in ("eq", "ne"):
        alike = (left.offsets, left.stride, left.factors) == (right.offsets, right.stride, right.factors)
        return UNIFORM if alike else None
    if _ordered_alike(predicate, left, right):
        return UNIFORM
    return None


def _ordered_alike(predicate: str, left: LaneShape, right: LaneShape) -> bool:
    """Whether the bound lies between blocks of values that the lanes share."""
    if left.uniform:
        flipped = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
        predicate, left, right = flipped[predicate[-2:]], right, left
    if not right.uniform or left.low_bits() is None or right.multiple < left.multiple:
        return False
    edge = right.residue + (1 if predicate[-2:] in ("gt", "le") else 0)
    return edge % left.multiple == 0


_RULES: dict[str, Callable[[Instruction, Sequence[LaneShape]], LaneShape | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "shl": _shl,
    "and": _bitwise,
    "or": _bitwise,
    "xor": _bitwise,
    "lshr": _shift_right,
    "ashr": _shift_right,
    "udiv": _divide,
    "urem": _divide,
    "trunc": _trunc,
    "zext": _extend,
    "sext": _extend,
    "ptrtoint": _same,
    "inttoptr": _same,
    "addrspacecast": _same,
    "freeze": _same,
    "bitcast": _same,
    "getelementptr": _address,
    "select": _select,
    "icmp": _compare,
}
