"""How long values that pass between blocks are needed: those of a loop's round end with it."""

from __future__ import annotations

from ..ir.flow import Loop
from ..ir.model import BasicBlock, Instruction, Value
from .frame import Writer, lanes_type

Slot = tuple[str, str]
"""The name of a stack slot, and its type."""


def forgotten(writer: Writer) -> dict[BasicBlock, list[Slot]]:
    """By the header of a loop, the slots that nobody reads any more when a round begins."""
    readers = _readers(writer)
    slots: dict[BasicBlock, list[Slot]] = {}
    for value, name, varying in _slots(writer):
        blocks = readers.get(value)
        loop = _loop_around(writer, value, blocks) if blocks is not None else None
        if loop is not None:
            kind = lanes_type(value.type) if varying else str(value.type)
            slots.setdefault(loop.header, []).append((name, kind))
    return slots


def _slots(writer: Writer) -> list[tuple[Instruction, str, bool]]:
    analysis = writer.analysis
    kept = [
        (value, name, analysis.seen(value, analysis.home[value]).varying)
        for value, name in writer.kept.items()
        if isinstance(value, Instruction)
    ]
    return kept + [(value, name, True) for value, name in writer.last.items() if isinstance(value, Instruction)]


def _readers(writer: Writer) -> dict[Value, set[BasicBlock]]:
    """The blocks that read each value; nothing of strides, which are read wherever an address needs them."""
    analysis = writer.analysis
    readers: dict[Value, set[BasicBlock]] = {}
    for block in analysis.flow.order:
        for inst in block.instructions:
            sources = inst.blocks if inst.opcode == "phi" else [block] * len(inst.operands)
            for operand, source in zip(inst.operands, sources, strict=True):
                readers.setdefault(operand, set()).add(source)
    for shape in analysis.shapes.values():
        if shape.stride is not None:
            readers.pop(shape.stride, None)
    return readers


def _loop_around(writer: Writer, value: Instruction, blocks: set[BasicBlock]) -> Loop | None:
    """The innermost loop in whose rounds a value is made anew and read."""
    home = writer.analysis.home[value]
    loop = writer.analysis.flow.loop_of[home]
    if loop is not None and value.opcode == "phi" and home is loop.header:
        loop = loop.parent  # it comes from the round before
    while loop is not None and not blocks <= loop.blocks:
        loop = loop.parent
    return loop
