"""Emits operations that lanes must execute one after the other: atomics and calls of ordinary functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..analysis.shape import WIDTH
from ..ir.model import I1, Instruction, StructType, Type, Value
from ..ir.text import render
from .frame import ALL, Frame, lanes_type

Read = Callable[[Value], str]
# For operations whose order does not matter: the fold of all lanes, and what an idle lane adds to it.
_NEUTRAL = {"add": 0, "or": 0, "xor": 0, "and": -1, "umax": 0, "umin": -1}


def in_turn(
    frame: Frame, operands: Sequence[Value], results: Sequence[Type], work: Callable[[Read], list[str]]
) -> list[str]:
    """Runs `work` for each lane at work, lowest first; answers the vectors of what it answers."""
    inputs = {operand: _spill(frame, operand) for operand in operands if not frame.shape(operand).uniform}
    for operand in operands:
        if operand not in inputs:
            frame.scalar(operand)
    outputs = [frame.writer.slot(f"[{WIDTH} x {_stored(kind)}]", "results", 64) for kind in results]
    rest = frame.writer.slot("i32", "rest")
    frame.emit(f"store i32 {frame.mask}, ptr {rest}")
    loop, done = frame.writer.name("turn"), frame.writer.name("turned")
    frame.emit(f"br label %{loop}")
    frame.label(loop)
    left = frame.let("left", f"load i32, ptr {rest}")
    lane = frame.let("lane", f"call i32 @llvm.cttz.i32(i32 {left}, i1 true)")

    def read(operand: Value) -> str:
        return _lane_of(frame, operand.type, inputs[operand], lane) if operand in inputs else frame.scalar(operand)

    for kind, slot, answer in zip(results, outputs, work(read), strict=True):
        stored = _stored(kind)
        wide = frame.let("wide", f"zext i1 {answer} to i8") if kind == I1 else answer
        frame.emit(f"store {stored} {wide}, ptr {_place(frame, stored, slot, lane)}")
    fewer = frame.let("fewer", f"add i32 {left}, -1")
    after = frame.let("after", f"and i32 {left}, {fewer}")
    frame.emit(f"store i32 {after}, ptr {rest}")
    more = frame.let("more", f"icmp ne i32 {after}, 0")
    frame.emit(f"br i1 {more}, label %{loop}, label %{done}")
    frame.label(done)
    return [_gathered(frame, kind, slot) for kind, slot in zip(results, outputs, strict=True)]


def _stored(kind: Type) -> str:
    return "i8" if kind == I1 else str(kind)


def _place(frame: Frame, kind: str, slot: str, lane: str) -> str:
    index = frame.let("index", f"zext i32 {lane} to i64")
    return frame.let("place", f"getelementptr {kind}, ptr {slot}, i64 {index}")


def _spill(frame: Frame, operand: Value) -> str:
    """A vector in memory, where one lane of it is easily read."""
    slot = frame.writer.slot(f"[{WIDTH} x {_stored(operand.type)}]", "inputs", 64)
    vector, kind = frame.vector(operand), lanes_type(operand.type)
    if operand.type == I1:
        vector, kind = frame.let("wide", f"zext {kind} {vector} to <{WIDTH} x i8>"), f"<{WIDTH} x i8>"
    frame.emit(f"store {kind} {vector}, ptr {slot}, align 64")
    return slot


def _lane_of(frame: Frame, kind: Type, slot: str, lane: str) -> str:
    stored = _stored(kind)
    own = frame.let("own", f"load {stored}, ptr {_place(frame, stored, slot, lane)}")
    return frame.let("own", f"trunc i8 {own} to i1") if kind == I1 else own


def _gathered(frame: Frame, kind: Type, slot: str) -> str:
    if kind != I1:
        return frame.let("gathered", f"load {lanes_type(kind)}, ptr {slot}, align 64")
    wide = frame.let("gathered", f"load <{WIDTH} x i8>, ptr {slot}, align 64")
    return frame.let("gathered", f"trunc <{WIDTH} x i8> {wide} to <{WIDTH} x i1>")


def serial(frame: Frame, inst: Instruction) -> None:
    """One instruction, lane by lane."""
    parts: list[Type] = list(inst.type.fields) if isinstance(inst.type, StructType) else [inst.type]
    results = parts if inst.name else []

    def work(read: Read) -> list[str]:
        line = render(replace(inst, name=""), read)
        if not inst.name:
            frame.emit(line)
            return []
        whole = frame.let(inst.name, line)
        if not isinstance(inst.type, StructType):
            return [whole]
        return [frame.let("part", f"extractvalue {inst.type} {whole}, {i}") for i in range(len(parts))]

    vectors = in_turn(frame, inst.operands, results, work)
    if not inst.name:
        return
    if not isinstance(inst.type, StructType):
        frame.define(inst, vectors[0])
        return
    total = "poison"
    for i, (part, vector) in enumerate(zip(parts, vectors, strict=True)):
        total = frame.let("whole", f"insertvalue {lanes_type(inst.type)} {total}, {lanes_type(part)} {vector}, {i}")
    frame.define(inst, total)


def atomic(frame: Frame, inst: Instruction, used: bool) -> None:
    """Lanes that add to one place without looking at it add their sum."""
    pointer, value = inst.operands[0], inst.operands[1]
    if inst.opcode != "atomicrmw" or used or inst.predicate not in _NEUTRAL or not frame.shape(pointer).uniform:
        serial(frame, inst)
        return
    kind, whole = str(value.type), lanes_type(value.type)
    vector = frame.vector(value)
    if frame.mask != ALL:
        idle = f"splat ({kind} {_NEUTRAL[inst.predicate]})"
        vector = frame.let("busy", f"select <{WIDTH} x i1> {frame.lanes()}, {whole} {vector}, {whole} {idle}")
    fold = f"@llvm.vector.reduce.{inst.predicate}.v{WIDTH}{kind}"
    total = frame.let("total", f"call {kind} {fold}({whole} {vector})")
    frame.emit(render(replace(inst, name=""), lambda o: total if o is value else frame.scalar(o)))
