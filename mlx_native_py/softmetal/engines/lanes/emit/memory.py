"""Emits loads and stores: once if all lanes use the same address, otherwise for all lanes."""

from __future__ import annotations

from dataclasses import replace

from ..analysis.groups import accessed, pointer_of
from ..analysis.shape import WIDTH
from ..ir.model import Declined, Instruction, IntType, VectorType
from ..ir.text import render
from .access import read, write
from .address import address_of
from .frame import Frame, lanes_type
from .rows import load_group, store_group
from .serial import serial
from .tables import lookup


def load(frame: Frame, inst: Instruction) -> None:
    """A load; its result is uniform or varying as the analysis says."""
    if frame.shape(pointer_of(inst)).uniform:
        _load_once(frame, inst)
        return
    _check(inst)
    if inst.flags:
        serial(frame, inst)
    elif entries := lookup(frame, inst.type, pointer_of(inst)):
        frame.define(inst, entries)
    elif inst in frame.groups:
        load_group(frame, inst, frame.groups[inst])
    else:
        frame.define(inst, read(frame, inst.type, address_of(frame, pointer_of(inst)), inst.align))


def store(frame: Frame, inst: Instruction) -> None:
    """A store; where lanes write to one place, the highest of them has the last word."""
    if frame.shape(pointer_of(inst)).uniform:
        _store_once(frame, inst)
        return
    _check(inst)
    value = accessed(inst)
    if inst.flags:
        serial(frame, inst)
    elif inst not in frame.groups:
        write(frame, value.type, frame.vector(value), address_of(frame, pointer_of(inst)), inst.align)
    elif frame.groups[inst].last is inst:
        store_group(frame, inst, frame.groups[inst])


def _check(inst: Instruction) -> None:
    kind = accessed(inst).type
    odd = isinstance(kind, IntType) and kind.bits not in (8, 16, 32, 64)
    if odd or isinstance(kind, VectorType) or not hasattr(kind, "bits"):
        raise Declined(f"{inst.opcode} of {kind} at addresses that differ between lanes")


def _load_once(frame: Frame, inst: Instruction) -> None:
    scalar = frame.let(inst.name, render(replace(inst, name=""), frame.scalar))
    if frame.shape(inst).varying:
        whole = lanes_type(inst.type)
        one = frame.let("one", f"insertelement {whole} poison, {inst.type} {scalar}, i64 0")
        alike = f"shufflevector {whole} {one}, {whole} poison, <{WIDTH} x i32> zeroinitializer"
        scalar = frame.let("alike", alike)
    frame.define(inst, scalar)


def _store_once(frame: Frame, inst: Instruction) -> None:
    value = accessed(inst)
    if frame.shape(value).uniform:
        frame.emit(render(inst, frame.scalar))
        return
    lane = str(WIDTH - 1)
    if not frame.full:
        frame.declare("declare i32 @llvm.ctlz.i32(i32, i1)")
        above = frame.let("above", f"call i32 @llvm.ctlz.i32(i32 {frame.bits()}, i1 true)")
        lane = frame.let("highest", f"xor i32 {above}, {WIDTH - 1}")
    chosen = frame.let("chosen", f"extractelement {lanes_type(value.type)} {frame.vector(value)}, i32 {lane}")
    frame.emit(render(inst, lambda operand: chosen if operand is value else frame.scalar(operand)))
