"""Emits varying 32-bit integer divisions in double precision, since there are no vector divisions."""

from __future__ import annotations

from ..analysis.shape import WIDTH
from ..ir.model import I32, Instruction, IrConstant
from .frame import Frame

_WHOLE, _WIDE = f"<{WIDTH} x i32>", f"<{WIDTH} x double>"


def is_wide(inst: Instruction) -> bool:
    """Whether the division is worth it; by a constant it is a multiplication anyway."""
    return inst.type == I32 and not isinstance(inst.operands[1], IrConstant)


def divide(frame: Frame, inst: Instruction, divisor: str) -> str:
    """The quotient or remainder; `divisor` is a vector that is 1 in idle lanes.

    A quotient of two 32-bit integers is never so close to the next one that a double would round up to it. A divisor
    for which the division is a fault takes the way on which it is one.
    """
    signed = inst.opcode[0] == "s"
    dividend = frame.vector(inst.operands[0])
    result = frame.writer.slot(_WHOLE, "quotient")
    quick, slow, done = (frame.writer.name(name) for name in ("quick", "slow", "divided"))
    frame.emit(f"br i1 {_is_fault(frame, inst, divisor, signed)}, label %{slow}, label %{quick}")
    frame.label(quick)
    kind = "si" if signed else "ui"
    left = frame.let("left", f"{kind}tofp {_WHOLE} {dividend} to {_WIDE}")
    right = frame.let("right", f"{kind}tofp {_WHOLE} {divisor} to {_WIDE}")
    ratio = frame.let("ratio", f"fdiv {_WIDE} {left}, {right}")
    quotient = frame.let("quotient", f"fpto{kind} {_WIDE} {ratio} to {_WHOLE}")
    if inst.opcode.endswith("rem"):
        whole = frame.let("whole", f"mul {_WHOLE} {quotient}, {divisor}")
        quotient = frame.let("rest", f"sub {_WHOLE} {dividend}, {whole}")
    frame.emit(f"store {_WHOLE} {quotient}, ptr {result}")
    frame.emit(f"br label %{done}")
    frame.label(slow)
    exact = frame.let("exact", f"{inst.opcode} {_WHOLE} {dividend}, {divisor}")
    frame.emit(f"store {_WHOLE} {exact}, ptr {result}")
    frame.emit(f"br label %{done}")
    frame.label(done)
    return frame.let(inst.name, f"load {_WHOLE}, ptr {result}")


def _is_fault(frame: Frame, inst: Instruction, divisor: str, signed: bool) -> str:
    """Whether some lane divides by 0, or by -1, which the least integer cannot be divided by."""
    value = inst.operands[1]
    if frame.full and frame.shape(value).uniform:
        above = frame.let("above", f"add i32 {frame.scalar(value)}, {int(signed)}")
        return frame.let("fault", f"icmp ule i32 {above}, {int(signed)}")
    above = frame.let("above", f"add {_WHOLE} {divisor}, splat (i32 {int(signed)})")
    faults = frame.let("faults", f"icmp ule {_WHOLE} {above}, splat (i32 {int(signed)})")
    return frame.let("fault", f"icmp ne i32 {frame.bits_of(faults)}, 0")
