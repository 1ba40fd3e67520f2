"""Emits arithmetic, casts, comparisons and addresses: once if uniform, otherwise on vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..analysis.rules import bits_of
from ..analysis.shape import WIDTH, LaneShape
from ..ir.model import Declined, Instruction, IrConstant, Value, VectorType
from ..ir.text import render
from .division import divide, is_wide
from .frame import Frame, lanes_type

_DIVISIONS = frozenset(("udiv", "sdiv", "urem", "srem"))
_CASTS = frozenset(
    "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint ptrtoaddr inttoptr bitcast "
    "addrspacecast".split()
)
_BINARY = frozenset("add sub mul udiv sdiv urem srem shl lshr ashr and or xor fadd fsub fmul fdiv frem".split())


def value(frame: Frame, inst: Instruction) -> None:
    """Writes one instruction that has no effect but its result."""
    shape = frame.shape(inst)
    if shape.known:
        return
    if shape.varying and inst.opcode in _DIVISIONS and is_wide(inst):
        frame.define(inst, divide(frame, inst, _divisor(frame, inst)))
    elif shape.varying:
        frame.define(inst, frame.let(inst.name, _vector(frame, inst)))
    elif inst.opcode in ("zext", "sext") and not shape.uniform:
        frame.define(inst, _extend(frame, inst))
    else:
        frame.define(inst, frame.let(inst.name, once(frame, inst)))


def once(frame: Frame, inst: Instruction) -> str:
    """The right side of the instruction on scalars, which are lane 0's where lanes differ.

    What lane 0 would have may break a promise that only lanes at work must keep, so promises go.
    """
    alike = all(frame.shape(operand).uniform for operand in inst.operands)
    if not alike and inst.opcode == "or" and "disjoint" in inst.flags:
        inst = replace(inst, opcode="add")
    plain = inst if alike else replace(inst, flags=())
    return render(replace(plain, name=""), frame.scalar)


def _extend(frame: Frame, inst: Instruction) -> str:
    """A linear value in more bits: exact, or exact for every lane whose address can be one."""
    source = inst.operands[0]
    shape = frame.shape(source)
    assert shape.offsets is not None
    if shape.stride is not None:
        return _extend_strided(frame, inst, shape)
    small, wide, scalar = source.type, inst.type, frame.scalar(source)
    if shape.low_bits() is not None:
        return frame.let(inst.name, f"{inst.opcode} {small} {scalar} to {wide}")
    if inst.opcode == "zext" and "nneg" in inst.flags:
        return frame.let(inst.name, f"sext {small} {scalar} to {wide}")
    least, most = min(shape.offsets), max(shape.offsets)
    first = frame.let("first", f"add {small} {scalar}, {least}")
    signed = frame.let("signed", f"sext {small} {first} to {wide}")
    if inst.opcode == "sext":
        return frame.let(inst.name, f"sub {wide} {signed}, {least}")
    # Where the sum wraps around within the lanes, those before that point count from below zero.
    limit = -1 - (most - least)
    wraps = frame.let("wraps", f"icmp ugt {small} {first}, {limit}")
    plain = frame.let("plain", f"zext {small} {first} to {wide}")
    chosen = frame.let("chosen", f"select i1 {wraps}, {wide} {signed}, {wide} {plain}")
    return frame.let(inst.name, f"sub {wide} {chosen}, {least}")


def _extend_strided(frame: Frame, inst: Instruction, shape: LaneShape) -> str:
    """Lane 0's index; where counting on from it as an unsigned number would leave the range, it lies below zero."""
    source = inst.operands[0]
    small, wide, scalar = source.type, inst.type, frame.scalar(source)
    signed = frame.let("signed", f"sext {small} {scalar} to {wide}")
    if inst.opcode == "sext":
        return signed
    stride = frame.stride(shape, wide)
    plain = frame.let("plain", f"zext {small} {scalar} to {wide}")
    test = "false"
    for factor in {min(shape.factors), max(shape.factors)} - {0}:
        step = frame.let("step", f"mul {wide} {stride}, {factor}")
        end = frame.let("end", f"add {wide} {plain}, {step}")
        beyond = frame.let("beyond", f"icmp sge {wide} {end}, {1 << bits_of(small)}")
        test = frame.let("wraps", f"or i1 {test}, {beyond}")
    return frame.let(inst.name, f"select i1 {test}, {wide} {signed}, {wide} {plain}")


def _vector(frame: Frame, inst: Instruction) -> str:
    opcode = inst.opcode
    if any(isinstance(operand.type, VectorType) for operand in inst.operands):
        raise Declined(f"{opcode} on small vectors that differ between lanes")
    if opcode in _BINARY:
        return _binary(frame, inst)
    if opcode in _CASTS:
        source = inst.operands[0]
        return f"{_words(inst)} {lanes_type(source.type)} {frame.vector(source)} to {lanes_type(inst.type)}"
    writer = _OTHERS.get(opcode)
    if writer is None:
        raise Declined(f"instruction {opcode}")
    return writer(frame, inst)


def _words(inst: Instruction) -> str:
    return " ".join((inst.opcode, *inst.flags, *([inst.predicate] if inst.predicate else [])))


def _binary(frame: Frame, inst: Instruction) -> str:
    left, right = inst.operands
    second = _divisor(frame, inst) if inst.opcode in _DIVISIONS else frame.vector(right)
    return f"{_words(inst)} {lanes_type(inst.type)} {frame.vector(left)}, {second}"


def _divisor(frame: Frame, inst: Instruction) -> str:
    """What lanes divide by; idle ones by 1, whatever they have."""
    vector, whole = frame.vector(inst.operands[1]), lanes_type(inst.type)
    if frame.full or _safe_divisor(inst.operands[1]):
        return vector
    one = f"splat ({inst.type} 1)"
    return frame.let("divisor", f"select <{WIDTH} x i1> {frame.lanes()}, {whole} {vector}, {whole} {one}")


def _safe_divisor(divisor: Value) -> bool:
    """Whether no dividend at all makes the division a fault."""
    return isinstance(divisor, IrConstant) and divisor.value not in (None, 0, -1)


def _unary(frame: Frame, inst: Instruction) -> str:
    return f"{_words(inst)} {lanes_type(inst.type)} {frame.vector(inst.operands[0])}"


def _compare(frame: Frame, inst: Instruction) -> str:
    left, right = inst.operands
    return f"{_words(inst)} {lanes_type(left.type)} {frame.vector(left)}, {frame.vector(right)}"


def _select(frame: Frame, inst: Instruction) -> str:
    condition, yes, no = inst.operands
    if frame.shape(condition).uniform and not frame.shape(condition).known:
        chooser = f"i1 {frame.scalar(condition)}"
    else:
        chooser = f"<{WIDTH} x i1> {frame.vector(condition)}"
    whole = lanes_type(inst.type)
    return f"{_words(inst)} {chooser}, {whole} {frame.vector(yes)}, {whole} {frame.vector(no)}"


def _address(frame: Frame, inst: Instruction) -> str:
    parts = []
    for operand in inst.operands:
        if frame.shape(operand).uniform:
            parts.append(f"{operand.type} {frame.scalar(operand)}")
        else:
            parts.append(f"{lanes_type(operand.type)} {frame.vector(operand)}")
    return f"{_words(inst)} {inst.element}, {', '.join(parts)}"


def _extract(frame: Frame, inst: Instruction) -> str:
    whole = inst.operands[0]
    return f"extractvalue {lanes_type(whole.type)} {frame.vector(whole)}, {', '.join(map(str, inst.indices))}"


def _insert(frame: Frame, inst: Instruction) -> str:
    whole, part = inst.operands
    old = "poison" if isinstance(whole, IrConstant) else frame.vector(whole)
    where = ", ".join(map(str, inst.indices))
    return f"insertvalue {lanes_type(whole.type)} {old}, {lanes_type(part.type)} {frame.vector(part)}, {where}"


_OTHERS: dict[str, Callable[[Frame, Instruction], str]] = {
    "fneg": _unary,
    "freeze": _unary,
    "icmp": _compare,
    "fcmp": _compare,
    "select": _select,
    "getelementptr": _address,
    "extractvalue": _extract,
    "insertvalue": _insert,
}
