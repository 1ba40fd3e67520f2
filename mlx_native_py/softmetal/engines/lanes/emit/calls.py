"""Selects how a call is emitted."""

from __future__ import annotations

import re

from ..analysis.intrinsics import PREFIX, is_pure
from ..analysis.shape import UNIFORM, WIDTH
from ..ir.model import POINTER, Declined, Instruction
from ..ir.text import render
from .frame import Frame
from .math import pure_call
from .serial import serial
from .simdgroup import lane_call

_WATCHED = re.compile(r"__tsan_(?:unaligned_)?(?:volatile_)?(read_write|read|write)(\d+)$")
_HINTS = ("llvm.lifetime.", "llvm.assume", "llvm.prefetch", "llvm.dbg.", "llvm.experimental.noalias")
_TRAPS = ("llvm.trap", "llvm.debugtrap")
_CHECK = "llvm.ubsantrap"
_MEMORY = ("llvm.memcpy.", "llvm.memmove.", "llvm.memset.")


def call(frame: Frame, inst: Instruction) -> None:
    """Writes a call, whatever it calls."""
    name = inst.callee
    if not name:
        raise Declined("calls a function that only the running kernel knows")
    if name.startswith(_HINTS):
        return
    watched = _WATCHED.match(name)
    if name.startswith(PREFIX):
        lane_call(frame, inst)
    elif name.startswith(_TRAPS):
        frame.emit("call void @llvm.trap()")
    elif name == _CHECK:
        frame.emit(render(inst, frame.scalar))
    elif name.startswith(_MEMORY):
        _memory(frame, inst)
    elif watched:
        _watch(frame, inst, watched[1], watched[2])
    elif is_pure(name):
        pure_call(frame, inst)
    else:
        serial(frame, inst)


def _memory(frame: Frame, inst: Instruction) -> None:
    if all(frame.shape(operand).uniform for operand in inst.operands):
        frame.emit(render(inst, frame.scalar))
    else:
        serial(frame, inst)


def _watch(frame: Frame, inst: Instruction, access: str, size: str) -> None:
    """One call for the accesses of all lanes."""
    pointer = inst.operands[0]
    shape = frame.shape(pointer)
    vector = frame.spread(frame.scalar(pointer), POINTER, UNIFORM) if shape.uniform else frame.vector(pointer)
    slot = frame.writer.fixed(f"[{WIDTH} x ptr]", "addresses")
    frame.emit(f"store <{WIDTH} x ptr> {vector}, ptr {slot}, align 64")
    frame.declare(f"declare void @soft_lanes_{access}(ptr, ptr, i32, i32)")
    frame.emit(f"call void @soft_lanes_{access}(ptr %fiber, ptr {slot}, i32 {frame.mask}, i32 {size})")
