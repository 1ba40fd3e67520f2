"""Shadow values of one function.

Only observable uses are checked: branches, addresses, stores to device or threadgroup memory. Arithmetic and copies
between private variables propagate undefined bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..engines.lanes.ir.layout import size_of, stored_bytes
from ..engines.lanes.ir.model import ArrayType, Declined, FunctionText, Instruction, Module, StructType, Type, Value
from ..engines.lanes.ir.parse import parse_function, whole_lines
from .own import UNSEEN
from .received import SHADOW
from .shadows import WORD_BYTES, Shadows, ones, shadow_type
from .slices import Origins, Slice, is_copy, is_fill, is_nowhere, is_received, is_source

BRANCH, ADDRESS, CALL = 0, 1, 4  # what an undefined value decides; runtime/check_undefined.cpp tells it on
_LABELS = re.compile(r', (%(?:"[^"]*"|[-\w$.]+)) \]')
_PLACE = re.compile(r", !dbg !\d+")
_POINTERS = {"load": (0,), "store": (1,), "atomicrmw": (0,), "cmpxchg": (0,)}
_VALUES = {"store": 0, "atomicrmw": 1, "cmpxchg": 2}


def shadowed(module: Module, source: FunctionText, names: Callable[[Origins], str]) -> str:
    """The function's body with shadows; raises Declined where it is not understood."""
    return "".join(f"{line}\n" for line in _ShadowedFunction(module, source, names).lines())


class _ShadowedFunction:
    def __init__(self, module: Module, source: FunctionText, names: Callable[[Origins], str]) -> None:
        words: dict[Value, str] = {}
        self._source, self._names = source, names
        self._function = parse_function(module, source.name, words)
        self._slice = Slice(self._function, [f.name for f in module.functions.values() if f.body])
        self._shadows = Shadows(lambda value: words.get(value) or value.text)
        self._shadows.reserve(self._slice.values)
        touched = [pointer for pointer, bases in self._slice.bases.items() if bases & self._slice.shadowed]
        self._memory: dict[Value, str] = {each: f"%soft.memory.{number}" for number, each in enumerate(touched)}
        self._dbg = ""

    def lines(self) -> list[str]:
        out = self._shadows.lines
        instructions = self._function.instructions()
        for line, text in whole_lines(self._source.body):
            if not line or line[0] != " ":
                out.append(text)
                continue
            inst = next(instructions)
            place = _PLACE.search(text)
            self._dbg = place[0] if place else ""
            self._use(inst)
            out.append(text)
            self._result(inst, text)
        return out

    def _use(self, inst: Instruction) -> None:
        """Calls that report what is about to matter."""
        if inst.opcode in ("br", "switch"):
            # The optimiser freezes what it decides earlier than the source does.
            decided = [o for o in inst.operands[:1] if not (isinstance(o, Instruction) and o.opcode == "freeze")]
            self._report(decided, BRANCH)
        if inst.opcode == "ret" or (inst.opcode == "call" and self._slice.calls(inst)):
            self._report(list(inst.operands), CALL)
        pointers = (0, 1) if is_copy(inst) else (0,) if is_fill(inst) else _POINTERS.get(inst.opcode, ())
        self._report([inst.operands[i] for i in pointers], ADDRESS)
        if is_fill(inst):
            self._stored(inst.operands[1], inst.operands[0], self._text(inst.operands[2]))
        elif is_copy(inst):
            self._copied(inst)
        elif inst.opcode in _VALUES:
            value = inst.operands[_VALUES[inst.opcode]]
            size = min(stored_bytes(value.type), WORD_BYTES)
            self._stored(value, inst.operands[_POINTERS[inst.opcode][0]], str(size))

    def _report(self, values: list[Value], what: int) -> None:
        origins = self._slice.origins(values)
        if origins:
            bit = self._shadows.any_of(values)
            self._call(f"soft_undefined_used(i1 zeroext {bit}, i32 {what}, ptr {self._names(origins)})")

    def _stored(self, value: Value, pointer: Value, length: str) -> None:
        if not self._shadows.known(value) or self._slice.private(pointer):
            return
        names = self._names(self._slice.origins([value]))
        for shadow, start in self._shadows.words(value):
            place = self._text(pointer)
            if start:
                place = self._shadows.add(f"getelementptr i8, ptr {place}, i64 {start}")
            self._call(f"soft_undefined_stored(i64 {shadow}, ptr {place}, i64 {length}, ptr {names})")

    def _copied(self, inst: Instruction) -> None:
        to, source, length = inst.operands[:3]
        origins = Origins().union(*(self._slice.memory.get(a, ()) for a in self._slice.private(source)))
        if self._slice.private(to) or not origins:
            return
        arguments = f"ptr {self._text(to)}, ptr {self._memory[source]}, i64 {self._text(length)}"
        self._call(f"soft_undefined_copied({arguments}, ptr {self._names(origins)})")

    def _result(self, inst: Instruction, text: str) -> None:
        """The shadow of what an instruction made or wrote."""
        if inst in self._memory:
            self._pointer(inst, text)
        if self._shadows.known(inst):
            self._value(inst, text)
        if inst.opcode == "store" and inst.operands[1] in self._memory:
            value, pointer = inst.operands
            shadow = f"{_in_memory(value.type)} {self._shadows.of(value)}"
            self._write(f"store {shadow}, ptr {self._memory[pointer]}, align {inst.align or 1}")
        elif is_fill(inst) and inst.operands[0] in self._memory:
            self._fill(self._memory[inst.operands[0]], self._shadows.of(inst.operands[1]), inst.operands[2])
        elif is_copy(inst) and inst.operands[0] in self._memory:
            self._copy(*inst.operands[:3])

    def _value(self, inst: Instruction, text: str) -> None:
        kind, name = shadow_type(inst.type), self._shadows.name(inst)
        if is_received(inst):
            self._shadows.add(f"call {kind} @{SHADOW}{kind}(ptr {self._text(inst.operands[1])})", name)
        elif is_source(inst):
            self._shadows.add(f"freeze {kind} {ones(kind)}", name)
        elif inst.opcode == "phi":
            shadows = [self._shadows.of(value) for value in inst.operands]
            self._shadows.add(_phi(str(kind), shadows, text), name)
        elif inst.opcode == "load":
            pointer = self._memory[inst.operands[0]]
            self._write(f"{name} = load {_in_memory(inst.type)}, ptr {pointer}, align {inst.align or 1}")
        else:
            self._shadows.write(inst)

    def _pointer(self, inst: Instruction, text: str) -> None:
        """Leads to the shadow of what the pointer leads to."""
        name = self._memory[inst]
        if inst.opcode == "alloca" and inst.element is not None:
            size = size_of(inst.element)
            self._shadows.add(f"alloca [{size} x i8], align {max(inst.align, 1)}", name)
            self._write(_filled(name, "0", str(size)))
        elif inst.opcode == "phi":
            self._shadows.add(_phi("ptr", [self._shadow_memory(value) for value in inst.operands], text), name)
        elif inst.opcode == "select":
            chosen = ", ".join(f"ptr {self._shadow_memory(value)}" for value in inst.operands[1:])
            self._shadows.add(f"select i1 {self._text(inst.operands[0])}, {chosen}", name)
        else:
            indices = [f"{index.type} {self._text(index)}" for index in inst.operands[1:]]
            steps = ", ".join([str(inst.element or "i8"), f"ptr {self._memory[inst.operands[0]]}", *indices])
            self._shadows.add(f"getelementptr {steps}", name)

    def _shadow_memory(self, pointer: Value) -> str:
        return "null" if is_nowhere(pointer) else self._memory[pointer]

    def _copy(self, to: Value, source: Value, length: Value) -> None:
        if source not in self._memory:
            self._fill(self._memory[to], "0", length)
            return
        pair = f"ptr {self._memory[to]}, ptr {self._memory[source]}"
        self._write(f"call void @llvm.memmove.p0.p0.i64({pair}, i64 {self._text(length)}, i1 false)")

    def _fill(self, pointer: str, shadow: str, length: Value) -> None:
        self._write(_filled(pointer, shadow, self._text(length)))

    def _text(self, value: Value) -> str:
        return self._shadows.text(value)

    def _call(self, text: str) -> None:
        self._shadows.lines.append(f"  notail call void @{text} nomerge{self._dbg}")

    def _write(self, text: str) -> None:
        self._shadows.lines.append(f"  {text}, {UNSEEN}")


def _filled(pointer: str, shadow: str, length: str) -> str:
    return f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 {shadow}, i64 {length}, i1 false)"


def _phi(kind: str, values: list[str], text: str) -> str:
    """With the labels of another phi's text."""
    pairs = zip(values, _LABELS.findall(text), strict=True)
    return f"phi {kind} {', '.join(f'[ {value}, {label} ]' for value, label in pairs)}"


def _in_memory(kind: Type) -> Type:
    if isinstance(kind, (StructType, ArrayType)):
        raise Declined(f"{kind} in memory")
    return shadow_type(kind)


__all__ = ["ADDRESS", "BRANCH", "shadowed"]
