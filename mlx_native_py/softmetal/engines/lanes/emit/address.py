"""Addresses of a simdgroup's lanes: known distances from lane 0's pointer, or a vector of pointers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from ..analysis.runs import Run, few_runs, singles
from ..analysis.shape import LANES, WIDTH, LaneShape
from ..ir.layout import terms
from ..ir.model import I64, POINTER, Instruction, IrConstant, IrParameter, Value
from ..ir.place import place_of
from .frame import Frame

_THREADGROUP = 8  # where a threadgroup keeps the address of its memory
POINTERS = f"<{WIDTH} x ptr>"
_ALIKE = f"<{WIDTH} x i32> zeroinitializer"


@dataclass(frozen=True)
class Address:
    """A pointer of all lanes; only lane 0's is emitted unless it varies."""

    text: str
    shape: LaneShape
    own: bool = False  # in an array of the simdgroup: where lanes are side by side, idle ones may take part
    distant: bool = True  # in a buffer, which may not be in the caches
    place: tuple[Hashable, int] = ("", 0)  # what it depends on, and bytes from there

    def moved(self, frame: Frame, distance: int) -> Address:
        """The same, some bytes further."""
        if distance == 0:
            return self
        kind = POINTERS if self.shape.varying else "ptr"
        place = self.place[0], self.place[1] + distance
        text = frame.let("moved", f"getelementptr i8, {kind} {self.text}, i64 {distance}")
        return replace(self, text=text, place=place)

    def pointers(self, frame: Frame) -> str:
        return self.text if self.shape.varying else frame.spread(self.text, POINTER, self.shape)

    def is_contiguous(self, size: int) -> bool:
        return self.shape.stride is None and self.shape.offsets == tuple(i * size for i in LANES)

    def few(self, size: int) -> tuple[Run, ...]:
        return few_runs(self.shape, size)

    def singles(self, size: int) -> tuple[Run, ...]:
        return singles(self.shape, size)

    def at(self, frame: Frame, factor: int, offset: int) -> str:
        """A pointer so many strides and bytes after lane 0's."""
        text = self.text
        if factor:
            step = frame.let("step", f"mul i64 {frame.stride(self.shape, I64)}, {factor}")
            text = frame.let("row", f"getelementptr i8, ptr {text}, i64 {step}")
        return frame.let("here", f"getelementptr i8, ptr {text}, i64 {offset}") if offset else text

    def of_lanes(self, frame: Frame) -> list[str]:
        """A pointer for each lane, of an address that does not vary freely."""
        assert self.shape.offsets is not None
        return [self.at(frame, *where) for where in zip(self.shape.factors, self.shape.offsets, strict=True)]


def address_of(frame: Frame, pointer: Value) -> Address:
    shape = frame.shape(pointer)
    text = frame.vector(pointer) if shape.varying else frame.scalar(pointer)
    root = pointer
    while isinstance(root, Instruction) and root.opcode == "getelementptr":
        root = root.operands[0]
    own = isinstance(root, Instruction) and "shared" in root.flags
    return Address(text, shape, own, not own and not _is_threadgroup(root), place_of(pointer))


def _is_threadgroup(root: Value) -> bool:
    if not isinstance(root, Instruction) or root.opcode != "load":
        return False
    place = root.operands[0]
    if not isinstance(place, Instruction) or place.opcode != "getelementptr" or not _is_group(place.operands[0]):
        return False
    return all(isinstance(o, IrConstant) for o in place.operands[1:]) and terms(place)[0] == _THREADGROUP


def _is_group(value: Value) -> bool:
    return isinstance(value, IrParameter) or isinstance(value, Instruction) and value.callee == "__lane_group"


def safe_pointers(frame: Frame, address: Address) -> str:
    """The addresses, with idle lanes sent to a spare place that nobody else uses: no branches are needed then."""
    pointers = address.pointers(frame)
    if frame.full:
        return pointers
    one = frame.let("one", f"insertelement {POINTERS} poison, ptr {frame.spare()}, i64 0")
    spare = frame.let("spare", f"shufflevector {POINTERS} {one}, {POINTERS} poison, {_ALIKE}")
    return frame.let("safe", f"select <{WIDTH} x i1> {frame.lanes()}, {POINTERS} {pointers}, {POINTERS} {spare}")
