"""Emits saturating float-to-integer conversions, which LLVM would do per lane."""

from __future__ import annotations

import struct

from ..analysis.shape import WIDTH
from ..ir.model import Instruction, IntType
from .frame import Frame, lanes_type

SATURATING = {"llvm.fptosi.sat": True, "llvm.fptoui.sat": False}  # whether the integer has a sign
_FLOATS, _WORDS, _PRECISION = f"<{WIDTH} x float>", f"<{WIDTH} x i32>", 24  # bits of a float's fraction


def is_quick(inst: Instruction) -> bool:
    """Whether both sides fit into words."""
    to, of = inst.type, inst.operands[0].type
    return isinstance(to, IntType) and to.bits in (8, 16, 32) and str(of) in ("float", "half", "bfloat")


def saturate(frame: Frame, inst: Instruction, *, signed: bool) -> str:
    """The nearest integer of the type, towards zero; 0 for a NaN."""
    kind = inst.operands[0].type
    x = frame.vector(inst.operands[0])
    if str(kind) != "float":
        x = frame.let("float", f"fpext {lanes_type(kind)} {x} to {_FLOATS}")
    assert isinstance(inst.type, IntType)
    bits = inst.type.bits - signed
    least, most = (-(1 << bits) if signed else 0), (1 << bits) - 1
    highest = most if bits <= _PRECISION else most + 1 - (1 << (bits - _PRECISION))
    inside = _within(frame, x, least, highest)
    cast = "fptosi" if signed or bits < 32 else "fptoui"
    found = frame.let("whole", f"{cast} {_FLOATS} {inside} to {_WORDS}")
    if highest != most:
        beyond = frame.let("beyond", f"fcmp ogt {_FLOATS} {x}, {_splat(highest)}")
        found = _select(frame, beyond, f"splat (i32 {most if signed else -1})", found)
    none = frame.let("none", f"fcmp uno {_FLOATS} {x}, zeroinitializer")
    found = _select(frame, none, "zeroinitializer", found)
    if inst.type.bits == 32:
        return found
    return frame.let("narrow", f"trunc {_WORDS} {found} to {lanes_type(inst.type)}")


def _within(frame: Frame, x: str, least: int, highest: int) -> str:
    """The comparisons that hardware has as one instruction each; a NaN becomes `least`."""
    for order, limit in (("ogt", least), ("olt", highest)):
        test = frame.let("test", f"fcmp {order} {_FLOATS} {x}, {_splat(limit)}")
        x = frame.let("inside", f"select <{WIDTH} x i1> {test}, {_FLOATS} {x}, {_FLOATS} {_splat(limit)}")
    return x


def _select(frame: Frame, test: str, yes: str, no: str) -> str:
    return frame.let("chosen", f"select <{WIDTH} x i1> {test}, {_WORDS} {yes}, {_WORDS} {no}")


def _splat(number: int) -> str:
    return f"splat (float 0x{struct.pack('>d', number).hex().upper()})"
