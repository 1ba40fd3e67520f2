"""Explains the runtime's reports: which argument an address belongs to, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..program import KernelSignature
from . import abi
from .arrays import Locate, OutsideArray, outside_array
from .errors import Access, CheckedError, DataRace, OutOfBounds, Place, Position

if TYPE_CHECKING:
    from .dispatch import Window

Kind = Literal["read", "write", "atomic read", "atomic write", "atomic update"]
_KINDS: dict[int, Kind] = {
    abi.READ: "read",
    abi.WRITE: "write",
    abi.READ | abi.ATOMIC: "atomic read",
    abi.WRITE | abi.ATOMIC: "atomic write",
    abi.READ | abi.WRITE | abi.ATOMIC: "atomic update",
}
_NULL = 1 << 16
_FAR = 1 << 40  # beyond this, the nearest buffer says nothing about where a pointer came from
_WRAPPED = tuple(size << 32 for size in (1, 2, 4, 8, 16))  # bytes that a 32-bit index of -0 would be off by
_SLIGHTLY_BELOW = 1 << 16


def _position(values: Any) -> Position:
    return int(values[0]), int(values[1]), int(values[2])


def _distance(window: Window, address: int, length: int) -> int:
    """How far outside; an unsigned index just below zero counts as near."""
    below = [wrap - (address - window.start) for wrap in _WRAPPED]
    wrapped = [distance for distance in below if 0 < distance <= _SLIGHTLY_BELOW]
    return min([max(window.start - address, address + length - window.end, 0), *wrapped])


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


class Explainer:
    """Knows the memory of one dispatch."""

    def __init__(
        self,
        kernel: KernelSignature,
        windows: Sequence[Window],
        launch: Any,
        trapped_slot: Callable[[int], int | None],
        locate: Locate | None = None,
    ) -> None:
        self._kernel = kernel
        self._locate = locate
        self._windows = windows
        self._tg_bytes = int(launch.tg_bytes)
        self._tg_offsets = launch.tg_offsets
        self._trapped_slot = trapped_slot

    def explain(self, report: abi.Report) -> CheckedError:
        """The exception for one report."""
        access = Access(
            _KINDS.get(report.access, "access"), report.bytes, _position(report.group), _position(report.thread)
        )
        array = outside_array(report.array, report.index, self._locate) if report.array else None
        if report.kind == abi.OUT_OF_BOUNDS:
            return self._out_of_bounds(report, access, array)
        if report.kind == abi.OUTSIDE_ARRAY and array is not None:
            return self._outside_array(report, access, array)
        thread = _position(report.other_thread) if report.other_known else None
        other = Access(_KINDS[report.other_access], 0, _position(report.other_group), thread)
        return self._race(report, access, other)

    def _outside_array(self, report: abi.Report, access: Access, array: OutsideArray) -> OutOfBounds:
        if not array.type_name:
            place, advice = (
                Place("texture", 0),
                "Metal reads zeros there and drops writes: compare with the size first.",
            )
            return OutOfBounds(self._kernel.name, access, place, f"outside of a texture: {array}", advice, array)
        place, where = Place("private memory", 0), "private memory of the thread"
        if report.space == abi.THREADGROUP:
            place = self._threadgroup_place(_signed(report.address))
            where = f"byte offset {place.offset} of threadgroup memory, which is another variable's"
        return OutOfBounds(self._kernel.name, access, place, f"by {array}: {where}", "Check the index.", array)

    def _out_of_bounds(self, report: abi.Report, access: Access, array: OutsideArray | None) -> OutOfBounds:
        if report.space == abi.THREADGROUP:
            place = self._threadgroup_place(_signed(report.address))
            what = (
                f"outside threadgroup memory: byte offset {place.offset}, but the dispatch has {self._tg_bytes} bytes"
            )
            advice = "Check the index, or set a larger setThreadgroupMemoryLength_atIndex_."
            what = f"by {array}, {what}" if array is not None else what
            return OutOfBounds(self._kernel.name, access, place, what, advice, array)
        place, inside = self._device_place(report.address, report.bytes)
        what, advice = self._describe(report, place, inside)
        return OutOfBounds(self._kernel.name, access, place, what, advice)

    def _describe(self, report: abi.Report, place: Place, inside: bool) -> tuple[str, str]:
        if place.space == "unbound slot":
            return (
                f"through slot {place.slot} ({place.name!r}), which is not bound (byte offset {place.offset})",
                "Bind a buffer or bytes there, or switch the argument off by a function constant.",
            )
        if place.space == "nowhere":
            target = "a null pointer" if report.address < _NULL else "memory that is not bound"
            return (
                f"through {target} (address {report.address:#x})",
                "Bind the buffer, or declare it by useResource_usage_ or a residency set if it is reached by address.",
            )
        if inside and report.access & abi.ATOMIC and report.address % report.bytes:
            return (
                f"at byte offset {place.offset} of {place}, which is not aligned",
                "Align the atomic variable to its size.",
            )
        if inside:
            return (
                f"at byte offset {place.offset} of {place}, which is read-only here",
                "Declare the argument without const, or write to another buffer.",
            )
        return (
            f"outside of {place}: byte offset {place.offset}",
            "Check the index against the length, or give a longer buffer.",
        )

    def _race(self, report: abi.Report, access: Access, other: Access) -> DataRace:
        if report.space == abi.THREADGROUP:
            place = self._threadgroup_place(_signed(report.address))
            advice = "Put threadgroup_barrier(mem_flags::mem_threadgroup) between them."
        else:
            place, _ = self._device_place(report.address, report.bytes)
            advice = "Put threadgroup_barrier(mem_flags::mem_device) between them."
        if report.kind == abi.RACE_BETWEEN_GROUPS:
            advice = "Metal gives no order between threadgroups: use atomics, separate bytes, or two dispatches."
        return DataRace(self._kernel.name, access, other, place, advice)

    def _threadgroup_place(self, offset: int) -> Place:
        starts = sorted((int(self._tg_offsets[a.index]), a) for a in self._kernel.arguments if a.kind == "threadgroup")
        named = [argument for start, argument in starts if start <= offset]
        if not named:
            return Place("threadgroup memory", offset, self._tg_bytes)
        return Place("threadgroup memory", offset, self._tg_bytes, named[-1].index, named[-1].name)

    def _device_place(self, address: int, length: int) -> tuple[Place, bool]:
        """The window that holds the bytes (True) or the nearest one."""
        slot = self._trapped_slot(address)
        if slot is not None:
            names = {a.index: a.name for a in self._kernel.arguments if a.kind == "buffer"}
            middle = (address >> 48 << 48) + (1 << 47)
            return Place("unbound slot", address - middle, 0, slot, names.get(slot, "")), False
        nearest, best = None, _FAR
        for window in self._windows:
            distance = _distance(window, address, length)
            if distance < best:
                nearest, best = window, distance
        if nearest is None or address < _NULL:
            return Place("nowhere", address), False
        place = Place(nearest.space, address - nearest.start, nearest.length, nearest.slot, nearest.name, nearest.label)
        return place, best == 0
