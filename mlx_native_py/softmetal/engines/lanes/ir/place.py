"""Addresses as sums, so that constant distances between them are known."""

from __future__ import annotations

from collections.abc import Hashable

from .layout import terms
from .model import I64, Instruction, IrConstant, Value


def place_of(pointer: Value) -> tuple[Hashable, int]:
    """An address as what it depends on and a constant number of bytes."""
    constant = 0
    parts: dict[Hashable, int] = {}
    while isinstance(pointer, Instruction) and pointer.opcode == "getelementptr":
        here, indices = terms(pointer)
        constant += here
        for index, scale in indices:
            key, more = _linear(index)
            constant += more * scale
            parts[key] = parts.get(key, 0) + scale
        pointer = pointer.operands[0]
    return (pointer, frozenset(parts.items())), constant


def _linear(index: Value) -> tuple[Hashable, int]:
    """An index as a value and a constant that is added to it."""
    if index.type != I64:
        return (index, ""), 0
    total, cast = 0, ""
    while isinstance(index, Instruction):
        if index.opcode in ("zext", "sext") and not cast:
            cast, index = index.opcode, index.operands[0]
            continue
        added = _added(index, cast)
        if added is None:
            break
        total, index = total + added, index.operands[0]
    return (index, cast), total


def _added(inst: Instruction, cast: str) -> int | None:
    """The constant that is added here, if adding it to the address is the same.

    Where bits are added after, the sum must not wrap.
    """
    if inst.opcode not in ("add", "or"):
        return None
    right = inst.operands[1]
    if not isinstance(right, IrConstant) or right.value is None or cast and right.value < 0:
        return None
    if inst.opcode == "or":
        return right.value if "disjoint" in inst.flags else None
    return right.value if not cast or {"zext": "nuw", "sext": "nsw"}[cast] in inst.flags else None
