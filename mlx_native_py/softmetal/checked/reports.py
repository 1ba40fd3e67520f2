"""Explains the runtime's reports: which argument an address belongs to, and what would help."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..program import KernelSignature
from . import abi
from .arrays import OutsideArray, function_at, outside_array
from .errors import (
    Absent,
    Access,
    CheckedError,
    DataRace,
    DivergentBarrier,
    MisalignedAccess,
    OutOfBounds,
    Place,
    Position,
    UninitialisedRead,
)
from .sites import Sites
from .threadgroup import ThreadgroupMemory
from .zones import zones

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
_USES = {
    abi.USE_BRANCH: "decides a branch",
    abi.USE_ADDRESS: "is part of an address",
    abi.USE_STORE: "is stored where others see it",
    abi.USE_READ: "is read through a pointer",
    abi.USE_CALL: "is given to or by a function that calls itself",
}
_VALUE = "Give it a value where it is declared, or on every way here."
_OUTLIVED = "A pointer to it does not outlive it: declare it outside of the block."
_GONE = " after its block"  # behind a name; definedness/sources.py
_RETURN = (
    "It came to its end without `return`, and its threadgroup was abandoned: let each way through it return a value."
)
_ABSENT: dict[int, Absent] = {
    abi.AT_ANOTHER: "waits at another",
    abi.ENDED: "has ended",
}
_NULL = 1 << 16
# Beyond this, the nearest buffer says nothing about where a pointer came from; where arguments have zones, it was none.
_FAR, _FAR_WITH_ZONES = 1 << 40, 1 << 24
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
    """The memory map of one dispatch."""

    def __init__(
        self,
        kernel: KernelSignature,
        windows: Sequence[Window],
        shared: ThreadgroupMemory,
        trapped_slot: Callable[[int], int | None],
        sites: Sites | None = None,
    ) -> None:
        self._kernel = kernel
        self._sites = sites or Sites()
        self._windows = windows
        self._shared = shared
        self._trapped_slot = trapped_slot

    def explain(self, report: abi.Report) -> CheckedError:
        """The exception for one report."""
        access = Access(
            _KINDS.get(report.access, "access"), report.bytes, _position(report.group), _position(report.thread)
        )
        if report.kind == abi.UNINITIALISED and report.space == abi.PRIVATE:
            return self._undefined(report, access)
        array = outside_array(report.array, report.index, self._sites.locate) if report.array else None
        if report.kind == abi.OUT_OF_BOUNDS:
            return self._out_of_bounds(report, access, array)
        if report.kind == abi.OUTSIDE_ARRAY:
            return self._outside_array(report, access, array) if array else self._outside_variable(report, access)
        if report.kind == abi.DIVERGENT:
            sources = self._sites.source(report.site), self._sites.source(report.other_site)
            return DivergentBarrier(
                self._kernel.name,
                access.group,
                access.thread,
                _position(report.other_thread),
                sources,
                _ABSENT[report.index],
            )
        if report.kind in (abi.UNINITIALISED, abi.MISALIGNED):
            return self._unsound(report, access)
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
            place = self._shared.place(_signed(report.address))
            where = f"byte offset {place.offset} of {place}"
        return OutOfBounds(self._kernel.name, access, place, f"by {array}: {where}", "Check the index.", array)

    def _outside_variable(self, report: abi.Report, access: Access) -> OutOfBounds:
        name = ctypes.string_at(report.index).decode() if report.index else ""
        variable = f"private variable {name!r}" if name else "private variable or constant"
        what, advice = f"through a pointer, outside of the {variable} that it points to", "Check the index."
        if report.bytes:
            what, advice = (
                f"to the private variable {name!r}, which is const",
                "Declare it without const, or write to a copy.",
            )
        source = self._sites.source(report.site)
        return OutOfBounds(
            self._kernel.name, access, Place("private memory", 0, name=name), what, advice, source=source
        )

    def _undefined(self, report: abi.Report, access: Access) -> UninitialisedRead:
        if report.index == abi.USE_RESULT:
            name, source = function_at(report.array, self._sites.locate)
            what, advice = f"the result of {repr(name) if name else 'a function'} has no value", _RETURN
        else:
            names, source = ctypes.string_at(report.array).decode(), self._sites.source(report.site)
            name, gone = ", ".join(dict.fromkeys(names.replace(_GONE, "").split(", "))), _GONE in names
            what = f"{repr(name) if name else 'a variable without a value'} {_USES[report.index]}"
            what += f"{_GONE} has ended" if gone else ", and has no value" if name else ""
            advice = _OUTLIVED if gone else _VALUE
        place = Place("private memory", 0, name=name)
        return UninitialisedRead(self._kernel.name, access, place, advice, source, what)

    def _unsound(self, report: abi.Report, access: Access) -> CheckedError:
        source = self._sites.source(report.site)
        shared = report.space == abi.THREADGROUP
        place = self._shared.place(_signed(report.address)) if shared else self._device_place(report)[0]
        if report.kind == abi.MISALIGNED:
            return MisalignedAccess(self._kernel.name, access, place, report.index, source)
        advice = "Write it first: each threadgroup begins with undefined threadgroup memory."
        if not shared:
            zeros = "replace its regions by zeros" if place.texel else "use a buffer of zeros"
            advice = f"Write it first, from the CPU or by a kernel, or {zeros}."
        return UninitialisedRead(self._kernel.name, access, place, advice, source)

    def _out_of_bounds(self, report: abi.Report, access: Access, array: OutsideArray | None) -> OutOfBounds:
        if report.space == abi.THREADGROUP:
            place = self._shared.place(_signed(report.address))
            what = f"outside {place}: byte offset {place.offset}"
            advice = "Check the index against the variable's length."
            if place.slot is not None:
                advice = "Check the index, or set a larger setThreadgroupMemoryLength_atIndex_."
            what = f"by {array}, {what}" if array is not None else what
            return OutOfBounds(self._kernel.name, access, place, what, advice, array, self._sites.source(report.site))
        place, inside = self._device_place(report)
        what, advice = self._describe(report, place, inside)
        source = self._sites.source(report.site)
        return OutOfBounds(self._kernel.name, access, place, what, advice, source=source)

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
            place, flag = self._shared.place(_signed(report.address)), "mem_threadgroup"
        else:
            (place, _), flag = self._device_place(report), "mem_device"
        advice = f"Put threadgroup_barrier(mem_flags::{flag}) between them, or use atomics or separate bytes."
        if report.kind == abi.RACE_BETWEEN_GROUPS:
            advice = "Metal gives no order between threadgroups: use atomics, separate bytes, or two dispatches."
        sources = self._sites.source(report.site), self._sites.source(report.other_site)
        return DataRace(self._kernel.name, access, other, place, advice, sources)

    def _device_place(self, report: abi.Report) -> tuple[Place, bool]:
        """The argument whose pointer it was, or the window around the bytes or nearest to them; whether it has them."""
        address, length = report.address, report.bytes
        slot = self._trapped_slot(address)
        if slot is not None:
            names = {a.index: a.name for a in self._kernel.arguments if a.kind == "buffer"}
            middle = (address >> 48 << 48) + (1 << 47)
            return Place("unbound slot", address - middle, 0, slot, names.get(slot, "")), False
        own = [each for each in self._windows if each.slot == report.argument - 1 and each.space != "texture"]
        if report.argument and own:
            return _place(own[0], _signed(address)), _distance(own[0], address, length) == 0
        nearest, best = None, _FAR if zones() is None else _FAR_WITH_ZONES
        for window in self._windows:
            distance = _distance(window, address, length)
            if distance < best:
                nearest, best = window, distance
        if nearest is None or address < _NULL:
            return Place("nowhere", address), False
        return _place(nearest, address), best == 0


def _place(window: Window, address: int) -> Place:
    offset = address - window.start
    texel, level = window.texels and window.texels.texel(offset) or (None, 0)
    return Place(window.space, offset, window.length, window.slot, window.name, window.label, texel, level)
