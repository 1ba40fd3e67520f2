"""Writes arithmetic, casts, comparisons and addresses: once where lanes agree, else on vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..analysis.rules import bits_of
from ..analysis.shape import WIDTH, Shape
from ..ir.model import Constant, Declined, Instruction, Value, VectorType
from ..ir.text import render
from .division import divide, is_wide
from .frame import Frame, lanes_type

_DIVISIONS = frozenset(("udiv", "sdiv", "urem", "srem"))
_CASTS = frozenset(
    "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint ptrtoaddr inttoptr bitcast "
    "addrspacecast".split()
)
_BINARY = frozenset("add sub mul udiv sdiv urem srem shl lshr ashr and or xor fadd fsub fmul fdiv frem".split())


def value(frame: Frame, made: Instruction) -> None:
    """Writes one instruction that has no effect but its result."""
    shape = frame.shape(made)
    if shape.known:
        return
    if shape.varying and made.opcode in _DIVISIONS and is_wide(made):
        frame.define(made, divide(frame, made, _divisor(frame, made)))
    elif shape.varying:
        frame.define(made, frame.let(made.name, _vector(frame, made)))
    elif made.opcode in ("zext", "sext") and not shape.uniform:
        frame.define(made, _extend(frame, made))
    else:
        frame.define(made, frame.let(made.name, once(frame, made)))


def once(frame: Frame, made: Instruction) -> str:
    """The right side of the instruction on scalars, which are lane 0's where lanes differ.

    What lane 0 would have may break a promise that only lanes at work must keep, so promises go.
    """
    alike = all(frame.shape(operand).uniform for operand in made.operands)
    if not alike and made.opcode == "or" and "disjoint" in made.flags:
        made = replace(made, opcode="add")
    plain = made if alike else replace(made, flags=())
    return render(replace(plain, name=""), frame.scalar)


def _extend(frame: Frame, made: Instruction) -> str:
    """A linear value in more bits: exact, or exact for every lane whose address can be one."""
    source = made.operands[0]
    shape = frame.shape(source)
    assert shape.offsets is not None
    if shape.stride is not None:
        return _extend_strided(frame, made, shape)
    small, wide, scalar = source.type, made.type, frame.scalar(source)
    if shape.low_bits() is not None:
        return frame.let(made.name, f"{made.opcode} {small} {scalar} to {wide}")
    if made.opcode == "zext" and "nneg" in made.flags:
        return frame.let(made.name, f"sext {small} {scalar} to {wide}")
    least, most = min(shape.offsets), max(shape.offsets)
    first = frame.let("first", f"add {small} {scalar}, {least}")
    signed = frame.let("signed", f"sext {small} {first} to {wide}")
    if made.opcode == "sext":
        return frame.let(made.name, f"sub {wide} {signed}, {least}")
    # Where the sum wraps around within the lanes, those before that point count from below zero.
    limit = -1 - (most - least)
    wraps = frame.let("wraps", f"icmp ugt {small} {first}, {limit}")
    plain = frame.let("plain", f"zext {small} {first} to {wide}")
    chosen = frame.let("chosen", f"select i1 {wraps}, {wide} {signed}, {wide} {plain}")
    return frame.let(made.name, f"sub {wide} {chosen}, {least}")


def _extend_strided(frame: Frame, made: Instruction, shape: Shape) -> str:
    """Lane 0's index; where counting on from it as an unsigned number would leave the range, it lies below zero."""
    source = made.operands[0]
    small, wide, scalar = source.type, made.type, frame.scalar(source)
    signed = frame.let("signed", f"sext {small} {scalar} to {wide}")
    if made.opcode == "sext":
        return signed
    stride = frame.stride(shape, wide)
    plain = frame.let("plain", f"zext {small} {scalar} to {wide}")
    test = "false"
    for factor in {min(shape.factors), max(shape.factors)} - {0}:
        step = frame.let("step", f"mul {wide} {stride}, {factor}")
        end = frame.let("end", f"add {wide} {plain}, {step}")
        beyond = frame.let("beyond", f"icmp sge {wide} {end}, {1 << bits_of(small)}")
        test = frame.let("wraps", f"or i1 {test}, {beyond}")
    return frame.let(made.name, f"select i1 {test}, {wide} {signed}, {wide} {plain}")


def _vector(frame: Frame, made: Instruction) -> str:
    opcode = made.opcode
    if any(isinstance(operand.type, VectorType) for operand in made.operands):
        raise Declined(f"{opcode} on small vectors that differ between lanes")
    if opcode in _BINARY:
        return _binary(frame, made)
    if opcode in _CASTS:
        source = made.operands[0]
        return f"{_words(made)} {lanes_type(source.type)} {frame.vector(source)} to {lanes_type(made.type)}"
    writer = _OTHERS.get(opcode)
    if writer is None:
        raise Declined(f"instruction {opcode}")
    return writer(frame, made)


def _words(made: Instruction) -> str:
    return " ".join((made.opcode, *made.flags, *([made.predicate] if made.predicate else [])))


def _binary(frame: Frame, made: Instruction) -> str:
    left, right = made.operands
    second = _divisor(frame, made) if made.opcode in _DIVISIONS else frame.vector(right)
    return f"{_words(made)} {lanes_type(made.type)} {frame.vector(left)}, {second}"


def _divisor(frame: Frame, made: Instruction) -> str:
    """What lanes divide by; idle ones by 1, whatever they have."""
    vector, whole = frame.vector(made.operands[1]), lanes_type(made.type)
    if frame.full or _safe_divisor(made.operands[1]):
        return vector
    one = f"splat ({made.type} 1)"
    return frame.let("divisor", f"select <{WIDTH} x i1> {frame.lanes()}, {whole} {vector}, {whole} {one}")


def _safe_divisor(divisor: Value) -> bool:
    """Whether no dividend at all makes the division a fault."""
    return isinstance(divisor, Constant) and divisor.value not in (None, 0, -1)


def _unary(frame: Frame, made: Instruction) -> str:
    return f"{_words(made)} {lanes_type(made.type)} {frame.vector(made.operands[0])}"


def _compare(frame: Frame, made: Instruction) -> str:
    left, right = made.operands
    return f"{_words(made)} {lanes_type(left.type)} {frame.vector(left)}, {frame.vector(right)}"


def _select(frame: Frame, made: Instruction) -> str:
    condition, yes, no = made.operands
    if frame.shape(condition).uniform and not frame.shape(condition).known:
        chooser = f"i1 {frame.scalar(condition)}"
    else:
        chooser = f"<{WIDTH} x i1> {frame.vector(condition)}"
    whole = lanes_type(made.type)
    return f"{_words(made)} {chooser}, {whole} {frame.vector(yes)}, {whole} {frame.vector(no)}"


def _address(frame: Frame, made: Instruction) -> str:
    parts = []
    for operand in made.operands:
        if frame.shape(operand).uniform:
            parts.append(f"{operand.type} {frame.scalar(operand)}")
        else:
            parts.append(f"{lanes_type(operand.type)} {frame.vector(operand)}")
    return f"{_words(made)} {made.element}, {', '.join(parts)}"


def _extract(frame: Frame, made: Instruction) -> str:
    whole = made.operands[0]
    return f"extractvalue {lanes_type(whole.type)} {frame.vector(whole)}, {', '.join(map(str, made.indices))}"


def _insert(frame: Frame, made: Instruction) -> str:
    whole, part = made.operands
    old = "poison" if isinstance(whole, Constant) else frame.vector(whole)
    where = ", ".join(map(str, made.indices))
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


def extract_lane(frame: Frame, operand: Value, lane: str) -> str:
    """One lane's value, `lane` being an i32."""
    shape = frame.shape(operand)
    if shape.uniform:
        return frame.scalar(operand)
    return frame.let("own", f"extractelement {lanes_type(operand.type)} {frame.vector(operand)}, i32 {lane}")
