"""Selects how a call is emitted."""

from __future__ import annotations

from ..analysis.intrinsics import PREFIX, is_pure
from ..ir.model import Declined, Instruction
from ..ir.text import render
from .frame import Frame
from .math import pure_call
from .serial import serial
from .simdgroup import lane_call

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
    if name.startswith(PREFIX):
        lane_call(frame, inst)
    elif name.startswith(_TRAPS):
        frame.emit("call void @llvm.trap()")
    elif name == _CHECK:
        frame.emit(render(inst, frame.scalar))
    elif name.startswith(_MEMORY):
        _memory(frame, inst)
    elif is_pure(name):
        pure_call(frame, inst)
    else:
        serial(frame, inst)


def _memory(frame: Frame, inst: Instruction) -> None:
    if all(frame.shape(operand).uniform for operand in inst.operands):
        frame.emit(render(inst, frame.scalar))
    else:
        serial(frame, inst)
