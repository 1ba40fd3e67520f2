"""Emits sums of four byte products: even and odd bytes are widened to 16 bits, and products are added in pairs."""

from __future__ import annotations

from ..analysis.shape import WIDTH
from ..ir.byte_products import DOT
from ..ir.model import I32, Instruction
from .frame import Frame, numbers

_WORDS, _SHORTS = f"<{WIDTH} x i32>", f"<{2 * WIDTH} x i16>"


def dot(frame: Frame, inst: Instruction) -> None:
    """One number for all lanes where they agree, else a vector."""
    left, right = list(inst.callee.removeprefix(DOT))
    one, other, total = inst.operands
    if not frame.shape(inst).varying:
        frame.define(inst, _once(frame, inst, {"s": "sext", "u": "zext"}, left, right))
        return
    halves = zip(_halves(frame, frame.vector(one), left), _halves(frame, frame.vector(other), right), strict=True)
    found = frame.vector(total)
    for a, b in halves:
        found = frame.let("dot", f"add {_WORDS} {found}, {_pairs(frame, a, b)}")
    frame.define(inst, found)


def _once(frame: Frame, inst: Instruction, casts: dict[str, str], *signs: str) -> str:
    wide = []
    for operand, sign in zip(inst.operands, signs, strict=False):
        parts = frame.let("bytes", f"bitcast i32 {frame.scalar(operand)} to <4 x i8>")
        wide.append(frame.let("wide", f"{casts[sign]} <4 x i8> {parts} to <4 x i32>"))
    products = frame.let("products", f"mul <4 x i32> {wide[0]}, {wide[1]}")
    total = frame.let("total", f"call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> {products})")
    return frame.let("dot", f"add i32 {total}, {frame.scalar(inst.operands[2])}")


def _halves(frame: Frame, words: str, sign: str) -> list[str]:
    """The even bytes of words and the odd ones, 16 bits wide."""
    shorts = frame.let("shorts", f"bitcast {_WORDS} {words} to {_SHORTS}")
    shift = "ashr" if sign == "s" else "lshr"
    up = frame.let("up", f"shl {_SHORTS} {shorts}, splat (i16 8)")
    return [frame.let("half", f"{shift} {_SHORTS} {one}, splat (i16 8)") for one in (up, shorts)]


def _pairs(frame: Frame, left: str, right: str) -> str:
    """The products of neighbours, added."""
    lanes = 16 if frame.native_masks else 8
    name = "@llvm.x86.avx512.pmaddw.d.512" if frame.native_masks else "@llvm.x86.avx2.pmadd.wd"
    some, few = f"<{2 * lanes} x i16>", f"<{lanes} x i32>"
    frame.declare(f"declare {few} {name}({some}, {some})")
    parts = []
    for first in range(0, WIDTH, lanes):
        mask = f"<{2 * lanes} x i32> {numbers(I32, range(2 * first, 2 * (first + lanes)))}"
        both = [frame.let("some", f"shufflevector {_SHORTS} {v}, {_SHORTS} poison, {mask}") for v in (left, right)]
        parts.append(frame.let("pairs", f"call {few} {name}({some} {both[0]}, {some} {both[1]})"))
    return frame.concatenated(parts, "i32")
