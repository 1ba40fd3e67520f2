"""Emits calls of math functions and LLVM intrinsics on vectors."""

from __future__ import annotations

import re

from ..analysis.shape import WIDTH
from ..ir.model import Declined, Instruction, IrConstant
from .conversion import SATURATING, is_quick, saturate
from .frame import Frame, lanes_type
from .serial import serial
from .values import once

_TYPE = re.compile(r"(?:f|bf|i|p)\d+$")
# Operands that LLVM wants as one immediate number, by position.
_IMMEDIATE = {"llvm.abs": 1, "llvm.ctlz": 1, "llvm.cttz": 1, "llvm.is.fpclass": 1}
_ELEMENTWISE = frozenset(
    "llvm." + name
    for name in (
        "abs acos asin atan atan2 bitreverse bswap canonicalize ceil copysign cos cosh ctlz ctpop cttz exp exp10 exp2 "
        "fabs floor fma fmuladd fptosi.sat fptoui.sat frexp fshl fshr is.fpclass ldexp log log10 log2 maximum "
        "maximumnum maxnum minimum minimumnum minnum modf nearbyint pow rint round roundeven sadd.sat "
        "sadd.with.overflow scmp sin sincos sinh smax smin smul.with.overflow sqrt sshl.sat ssub.sat "
        "ssub.with.overflow tan tanh trunc uadd.sat uadd.with.overflow ucmp umax umin umul.with.overflow ushl.sat "
        "usub.sat usub.with.overflow"
    ).split()
)


def pure_call(frame: Frame, inst: Instruction) -> None:
    """A call that is nothing but its result."""
    shape = frame.shape(inst)
    if shape.known:
        return
    if not shape.varying:
        frame.define(inst, frame.let(inst.name, once(frame, inst)))
        return
    stem = inst.callee
    suffixes: list[str] = []
    while stem.startswith("llvm.") and _TYPE.match(stem.rpartition(".")[2]):
        stem, _, suffix = stem.rpartition(".")
        suffixes.insert(0, suffix)
    if stem in SATURATING and is_quick(inst):
        frame.define(inst, saturate(frame, inst, signed=SATURATING[stem]))
    elif stem in _ELEMENTWISE:
        name = ".".join([stem, *(f"v{WIDTH}{suffix}" for suffix in suffixes)])
        frame.define(inst, frame.let(inst.name, _elementwise(frame, inst, stem, name)))
    elif not stem.startswith("llvm."):
        serial(frame, inst)
    else:
        raise Declined(f"calls {inst.callee}")


def _elementwise(frame: Frame, inst: Instruction, stem: str, name: str) -> str:
    arguments = []
    for i, operand in enumerate(inst.operands):
        if _IMMEDIATE.get(stem) == i:
            if not isinstance(operand, IrConstant):
                raise Declined(f"calls {inst.callee} with a variable")
            arguments.append(f"{operand.type} {operand.text}")
        else:
            arguments.append(f"{lanes_type(operand.type)} {frame.vector(operand)}")
    words = " ".join(["call", *(flag for flag in inst.flags)])
    return f"{words} {lanes_type(inst.type)} @{name}({', '.join(arguments)})"
