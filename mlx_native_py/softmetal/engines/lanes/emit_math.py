"""Writes calls of mathematical functions and of LLVM's own on vectors."""

from __future__ import annotations

import re

from .emit_serial import serial
from .emit_values import once
from .frame import Frame, lanes_type
from .model import FLOAT, Constant, Declined, Instruction
from .shape import WIDTH

_TYPE = re.compile(r"(?:f|bf|i|p)\d+$")
# Operands that LLVM wants as one immediate number, by position.
_IMMEDIATE = {"llvm.abs": 1, "llvm.ctlz": 1, "llvm.cttz": 1, "llvm.is.fpclass": 1}
_LIBRARY = {"exp": 1, "log": 1, "sin": 1, "cos": 1, "pow": 2}  # with the number of arguments
_LETTER = {4: "b", 8: "d", 16: "e"}
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


def pure_call(frame: Frame, made: Instruction) -> None:
    """A call that is nothing but its result."""
    shape = frame.shape(made)
    if not shape.varying:
        frame.define(made, frame.let(made.name, once(frame, made)))
        return
    stem = made.callee
    suffixes: list[str] = []
    while stem.startswith("llvm.") and _TYPE.match(stem.rpartition(".")[2]):
        stem, _, suffix = stem.rpartition(".")
        suffixes.insert(0, suffix)
    library = _library_name(made, stem)
    if library and frame.writer.math_width:
        frame.define(made, _library(frame, made, library))
    elif stem in _ELEMENTWISE:
        name = ".".join([stem, *(f"v{WIDTH}{suffix}" for suffix in suffixes)])
        frame.define(made, frame.let(made.name, _elementwise(frame, made, stem, name)))
    elif not stem.startswith("llvm."):
        serial(frame, made)
    else:
        raise Declined(f"calls {made.callee}")


def _elementwise(frame: Frame, made: Instruction, stem: str, name: str) -> str:
    arguments = []
    for i, operand in enumerate(made.operands):
        if _IMMEDIATE.get(stem) == i:
            if not isinstance(operand, Constant):
                raise Declined(f"calls {made.callee} with a variable")
            arguments.append(f"{operand.type} {operand.text}")
        else:
            arguments.append(f"{lanes_type(operand.type)} {frame.vector(operand)}")
    words = " ".join(["call", *(flag for flag in made.flags)])
    return f"{words} {lanes_type(made.type)} @{name}({', '.join(arguments)})"


def _library_name(made: Instruction, stem: str) -> str:
    """`exp` for what is llvm.exp.f32 or expf, and so on."""
    if made.type != FLOAT or any(operand.type != FLOAT for operand in made.operands):
        return ""
    name = stem.removeprefix("llvm.") if stem.startswith("llvm.") else stem.removesuffix("f")
    return name if _LIBRARY.get(name) == len(made.operands) else ""


def _library(frame: Frame, made: Instruction, name: str) -> str:
    width = frame.writer.math_width
    part, whole = f"<{width} x float>", f"<{WIDTH} x float>"
    callee = f"_ZGV{_LETTER[width]}N{width}{'v' * len(made.operands)}_{name}f"
    frame.declare(
        f"declare {part} @{callee}({', '.join([part] * len(made.operands))}) nounwind willreturn memory(none)"
    )
    vectors = []
    for operand in made.operands:
        vector = frame.vector(operand)
        if not frame.full:
            # Whatever idle lanes hold may take the library's slow way.
            choice = f"{whole} {vector}, {whole} splat (float 1.0)"
            vector = frame.let("argument", f"select <{WIDTH} x i1> {frame.lanes()}, {choice}")
        vectors.append(vector)
    parts = []
    for start in range(0, WIDTH, width):
        places = ", ".join(f"i32 {i}" for i in range(start, start + width))
        cut = [
            frame.let("part", f"shufflevector {whole} {v}, {whole} poison, <{width} x i32> <{places}>") for v in vectors
        ]
        arguments = ", ".join(f"{part} {v}" for v in cut)
        parts.append(frame.let("called", f"call {part} @{callee}({arguments})"))
    return joined(frame, parts, "float", width)


def joined(frame: Frame, parts: list[str], kind: str, width: int) -> str:
    """Vectors side by side, by pairs."""
    while len(parts) > 1:
        places = ", ".join(f"i32 {i}" for i in range(2 * width))
        one = f"<{width} x {kind}>"
        parts = [
            frame.let("joined", f"shufflevector {one} {a}, {one} {b}, <{2 * width} x i32> <{places}>")
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
        width *= 2
    return parts[0]
