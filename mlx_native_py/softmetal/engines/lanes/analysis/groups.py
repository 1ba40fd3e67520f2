"""Finds adjacent accesses in each lane, such as the parts of a `float4`, which are faster together."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from ..ir.byte_products import DOT
from ..ir.layout import stored_bytes
from ..ir.maker import scalar_of
from ..ir.model import Instruction, IntType, IrFunction, PointerType, Value
from ..ir.place import place_of
from .runs import few_runs
from .shape import LaneShape

_ROW = 16  # bytes that one lane reads or writes at once
_SILENT = frozenset(("load", "store", "call", "atomicrmw", "cmpxchg", "fence", "alloca"))


@dataclass(eq=False)
class AccessGroup:
    """Loads or stores of adjacent elements of one type, ordered by address."""

    members: list[Instruction]
    last: Instruction  # in the order of the program

    @property
    def size(self) -> int:
        return stored_bytes(accessed(self.members[0]).type)

    def distance(self, member: Instruction) -> int:
        """Bytes from the first element."""
        return self.members.index(member) * self.size


def accessed(inst: Instruction) -> Value:
    """The value that a load makes or a store writes."""
    return inst if inst.opcode == "load" else inst.operands[0]


def pointer_of(inst: Instruction) -> Value:
    return inst.operands[0 if inst.opcode == "load" else 1]


def find_groups(function: IrFunction, shape_of: Callable[[Value], LaneShape]) -> dict[Instruction, AccessGroup]:
    """The group of each access that is in one."""
    groups: dict[Instruction, AccessGroup] = {}
    for block in function.blocks:
        for run in _runs(block.instructions, shape_of):
            for group in _groups(run):
                groups.update(dict.fromkeys(group.members, group))
    return groups


Placed = tuple[int, Instruction]


@dataclass(eq=False)
class _Open:
    """Groups of a block that may still grow, by opcode and memory, then by base address."""

    done: list[list[Placed]] = field(default_factory=list)
    runs: dict[tuple[str, Value | None], dict[Hashable, list[Placed]]] = field(default_factory=dict)

    def close(self, opcode: str, memory: Value | None) -> None:
        self.done += self.runs.pop((opcode, memory), {}).values()

    def close_all(self) -> list[list[Placed]]:
        for opcode, memory in list(self.runs):
            self.close(opcode, memory)
        return self.done

    def add(self, inst: Instruction, memory: Value | None) -> None:
        address, place = place_of(pointer_of(inst))
        key = (address, accessed(inst).type)
        if inst.opcode == "store" and key not in self.runs.get(("store", memory), ()):
            self.close("store", memory)
        self.runs.setdefault((inst.opcode, memory), {}).setdefault(key, []).append((place, inst))


def _runs(instructions: list[Instruction], shape_of: Callable[[Value], LaneShape]) -> list[list[Placed]]:
    """Accesses at constant distances with nothing in between that could tell in which order they are made."""
    opened = _Open()
    for inst in instructions:
        if inst.opcode not in ("load", "store") or inst.flags:
            if inst.opcode in _SILENT and not _is_arithmetic(inst):
                opened.close_all()
            continue
        memory = _memory(pointer_of(inst))
        opened.close("store" if inst.opcode == "load" else "load", memory)
        if _fits(inst, shape_of):
            opened.add(inst, memory)
        elif inst.opcode == "store":
            opened.close("store", memory)
    return opened.close_all()


def _memory(pointer: Value) -> Value | None:
    """The array of their own that lanes reach here, which no other address leads to; None for all other memory."""
    while isinstance(pointer, Instruction) and pointer.opcode == "getelementptr":
        pointer = pointer.operands[0]
    return pointer if isinstance(pointer, Instruction) and "shared" in pointer.flags else None


def _is_arithmetic(inst: Instruction) -> bool:
    return inst.opcode == "alloca" or (
        inst.callee.startswith("llvm.")
        and bool(inst.name)
        or inst.callee in ("__lane_number", "__lane_group")
        or inst.callee.startswith(DOT)
    )


def _fits(inst: Instruction, shape_of: Callable[[Value], LaneShape]) -> bool:
    kind = accessed(inst).type
    if not isinstance(kind, (IntType, PointerType)) and not hasattr(kind, "bits"):
        return False
    size = stored_bytes(kind)
    shape = shape_of(pointer_of(inst))
    if shape.uniform or size > 4 or scalar_of(kind).bits != size * 8 or inst.align < size:
        return False
    # Where lanes lie side by side, one element of all of them already is a few accesses.
    return not few_runs(shape, size)


def _groups(run: list[Placed]) -> list[AccessGroup]:
    """Cuts a run into rows of 2, 4, 8 or 16 bytes without gaps."""
    order = {inst: i for i, (_, inst) in enumerate(run)}
    unique = dict(run)
    if len(unique) != len(run):
        if run[0][1].opcode == "store":
            return []
        run = [(place, inst) for place, inst in run if unique[place] is inst]
    run.sort(key=lambda placed: placed[0])
    size = stored_bytes(accessed(run[0][1]).type)
    groups: list[AccessGroup] = []
    start = 0
    while start < len(run):
        length = 1
        while start + length < len(run) and run[start + length][0] == run[start][0] + length * size:
            length += 1
        count = min(1 << length.bit_length() - 1, _ROW // size)
        if count > 1:
            members = [inst for _, inst in run[start : start + count]]
            groups.append(AccessGroup(members, max(members, key=order.__getitem__)))
        start += count
    return groups
