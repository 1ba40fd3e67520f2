"""One checked dispatch: tells the runtime which memory may be accessed, and reads back what was."""

from __future__ import annotations

import ctypes
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..program import KernelSignature, ThreadgroupVariable
from . import abi, intervals
from .areas import AreaMemory
from .errors import CheckedError
from .reports import Explainer
from .shadow import Words, give_back, zeros
from .sites import Sites
from .threadgroup import ThreadgroupMemory
from .zones import NOT_APART, Apart

REPORTS = 16
_serials = itertools.count(1)

# An unbound slot points where no memory can be: the slot is in the upper bits, with room on both sides.
_TRAP = 0x7A00
_PAGE_WORDS = 4096 // 8


class Bytes(Protocol):
    """The uninitialised bytes of an allocation, as bits in words that cover 64 bytes each."""

    address: int

    def bits(self, start: int, end: int) -> intervals.Addresses | None: ...

    def written(self, start: int, words: intervals.Addresses) -> None: ...


class Texels(Protocol):
    """The shape of a texture, which knows where a byte belongs."""

    def texel(self, offset: int) -> tuple[tuple[int, int, int], int] | None: ...


@dataclass(frozen=True)
class Window:
    """Memory that the dispatch may access: from a slot's offset to the end, or a resident allocation."""

    start: int
    length: int
    access: int  # abi.READ | abi.WRITE
    space: Literal["buffer", "inline bytes", "resident buffer", "texture"] = "buffer"
    slot: int | None = None
    name: str = ""
    label: str = ""
    unwritten: Bytes | None = None
    addressed: bool = True  # whether anybody has the address of what is resident
    texels: Texels | None = None  # of a texture

    @property
    def end(self) -> int:
        return self.start + self.length

    def may_be_written(self, other: Window) -> bool:
        """Whether the dispatch can write to bytes of another window through this one."""
        overlap = self.start < other.end and other.start < self.end
        return overlap and self.addressed and bool(self.access & abi.WRITE)


@dataclass(frozen=True)
class Footprint:
    """The addresses that a dispatch accessed, by kind of access."""

    reads: intervals.Intervals = intervals.EMPTY
    writes: intervals.Intervals = intervals.EMPTY
    atomic_reads: intervals.Intervals = intervals.EMPTY
    atomic_writes: intervals.Intervals = intervals.EMPTY


def trap_address(slot: int) -> int:
    """Where an unbound slot points in checked mode."""
    return (_TRAP | slot) << 48 | 1 << 47


def trapped_slot(address: int) -> int | None:
    """The unbound slot that an address was computed from, if any."""
    return address >> 48 & 31 if address >> 48 & ~31 == _TRAP else None


def _cut(windows: Sequence[Window]) -> list[tuple[int, int, int]]:
    """Start, end and access of stretches without overlap, so that a byte has all that any window allows there."""
    changes: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
    for window in windows:
        for kind, flag in enumerate((abi.READ, abi.WRITE)):
            changes[window.start][kind] += bool(window.access & flag)
            changes[window.end][kind] -= bool(window.access & flag)
    segments: list[tuple[int, int, int]] = []
    readers = writers = 0
    for start, end in itertools.pairwise(sorted(changes)):
        readers, writers = readers + changes[start][0], writers + changes[start][1]
        access = (abi.READ if readers else 0) | (abi.WRITE if writers else 0)
        if access and segments and segments[-1][1:] == (start, access):
            segments[-1] = (segments[-1][0], end, access)
        elif access:
            segments.append((start, end, access))
    return segments


class DispatchCheck:
    """Fills `launch.check`, and after the launch returns `findings()` and `footprint()`."""

    def __init__(
        self,
        kernel: KernelSignature,
        launch: Any,
        windows: Sequence[Window],
        zones: Apart = NOT_APART,
        sites: Sites | None = None,
        variables: Sequence[ThreadgroupVariable] = (),
    ) -> None:
        self._kernel = kernel
        self._sites = sites
        self._launch = launch
        self._windows = tuple(window for window in windows if window.length)
        self._zeroed: list[Words] = []
        self._fresh: list[NDArray[np.uint64]] = []
        self._memory: list[AreaMemory] = []
        self._read: list[tuple[NDArray[np.uint64], int, int]] = []
        self._areas = self._make_areas()
        self._segments = self._make_segments()
        self._use_zones(zones.arguments)
        self._shared = ThreadgroupMemory(kernel, launch, variables)
        self._reports = (abi.Report * REPORTS)()
        self._check = abi.Check(
            segments=self._segments,
            areas=self._areas,
            reports=self._reports,
            segment_count=len(self._segments),
            area_count=len(self._areas),
            report_capacity=REPORTS,
            serial=next(_serials),
            zones=zones.table,
            zones_start=zones.start,
            tg_bytes=self._shared.lengths,
            tg_count=self._shared.count,
        )
        launch.check = ctypes.addressof(self._check)
        for argument in kernel.arguments:
            if argument.kind == "buffer" and not launch.lengths[argument.index]:
                launch.buffers[argument.index] = trap_address(argument.index)

    def _make_areas(self) -> Any:
        spans: list[list[int]] = []
        for window in sorted(self._windows, key=lambda w: w.start):
            start, end = window.start // abi.BLOCK * abi.BLOCK, -(-window.end // abi.BLOCK) * abi.BLOCK
            writable = window.access & abi.WRITE
            if spans and start <= spans[-1][1]:
                spans[-1][1:] = max(spans[-1][1], end), spans[-1][2] | writable
            else:
                spans.append([start, end, writable])
        areas = (abi.Area * len(spans))()
        for area, (start, end, writable) in zip(areas, spans, strict=True):
            area.start, area.end = start, end
            self._memory.append(AreaMemory(area, bool(writable)))
            area.fresh = self._unwritten(start, end)
        return areas

    def _unwritten(self, start: int, end: int) -> int:
        """Where the bits of bytes are that nobody has written; 0 where there are none."""
        bits: NDArray[np.uint64] | None = None
        for unwritten, low, high in self._overlaps(start, end):
            fresh = unwritten.bits(low, high)
            if fresh is not None:
                bits = np.zeros((end - start) // 64, np.uint64) if bits is None else bits
                bits[(low - start) // 64 : (high - start) // 64] |= fresh
        if bits is None:
            return 0
        self._fresh.append(bits)
        return int(bits.ctypes.data)

    def _overlaps(self, start: int, end: int) -> Iterator[tuple[Bytes, int, int]]:
        """What is known of unwritten memory between two addresses, and which part of it that is."""
        for window in self._windows:
            if window.unwritten is not None:
                low = max(start, window.start // 64 * 64)
                high = min(end, -(-window.end // 64) * 64)
                if low < high:
                    yield window.unwritten, low, high

    def _use_zones(self, zones: Mapping[int, abi.ArgumentZone]) -> None:
        """Has the kernel see its arguments there."""
        self._places = {slot: self._launch.buffers[slot] for slot in zones}
        self._zones = list(zones.values())
        for window in self._windows:
            if window.slot is None or window.slot not in zones or window.space not in ("buffer", "inline bytes"):
                continue
            zone = zones[window.slot]
            zone.length, zone.access, zone.argument = window.length, window.access, window.slot + 1
            if self._is_only_read(window):
                zone.seen, zone.seen_words = self._seen(window, 1), self._seen(window, 4)
                zone.ready, zone.ready_words = window.length, window.length // 4 * 4
            self._launch.buffers[window.slot] = zone.start

    def _is_only_read(self, window: Window) -> bool:
        """Whether which bytes are read is all there is to know."""
        if window.access & abi.WRITE or any(each.may_be_written(window) for each in self._windows):
            return False
        start, end = window.start // 64 * 64, -(-window.end // 64) * 64
        return all(unwritten.bits(low, high) is None for unwritten, low, high in self._overlaps(start, end))

    def _seen(self, window: Window, unit: int) -> int:
        """A byte for each `unit` bytes that are read together."""
        count = -(-window.length // (8 * unit))
        words = self._zeros(count + _PAGE_WORDS)
        # Processors take a load for one of what was stored just before where both are as far into their pages.
        skipped = (window.start - words.ctypes.data) // 8 % _PAGE_WORDS
        words = words[(skipped + _PAGE_WORDS // 2 + 8) % _PAGE_WORDS :]
        if window.space != "inline bytes":
            self._read.append((words[:count], window.start, unit))
        return int(words.ctypes.data)

    def finish(self) -> None:
        """The launch is as it was, and what it wrote is no longer unwritten."""
        self._launch.check = None
        for zone in self._zones:
            zone.length = zone.access = zone.argument = zone.seen = zone.seen_words = zone.ready = zone.ready_words = 0
        for slot, address in self._places.items():
            self._launch.buffers[slot] = address
        self._shared.finish()
        for area, memory in zip(self._areas, self._memory, strict=True):
            if not (area.fresh and area.writes):
                continue
            written = memory.written()
            for unwritten, low, high in self._overlaps(area.start, area.end):
                unwritten.written(low, written[(low - area.start) // 64 : (high - area.start) // 64])

    def _zeros(self, words: int) -> Words:
        self._zeroed.append(zeros(words))
        return self._zeroed[-1]

    def close(self) -> None:
        """Nothing is asked any more."""
        for memory in reversed(self._memory):
            memory.give_back()
        for words in reversed(self._zeroed):
            give_back(words)

    def _make_segments(self) -> Any:
        cut = _cut(self._windows)
        segments = (abi.SoftSegment * len(cut))()
        area = 0
        for segment, (start, end, access) in zip(segments, cut, strict=True):
            while self._areas[area].end < end:
                area += 1
            segment.start, segment.end, segment.access, segment.area = start, end, access, area
        return segments

    def findings(self) -> list[CheckedError]:
        """What the runtime reported, explained."""
        explainer = Explainer(self._kernel, self._windows, self._shared, trapped_slot, self._sites)
        # A thread that reads too early finds memory unwritten: the race says more.
        reports = sorted(self._reports[: self._check.report_count], key=lambda each: each.kind == abi.UNINITIALISED)
        return [explainer.explain(report) for report in reports]

    def footprint(self) -> Footprint:
        """The bytes that the dispatch touched; inline bytes are nobody else's and are left out."""
        sets: defaultdict[str, intervals.Intervals] = defaultdict(lambda: intervals.EMPTY)
        for memory in self._memory:
            for kind, addresses in memory.touched().items():
                sets[kind] |= addresses
        for seen, start, unit in self._read:
            sets["reads"] |= intervals.of_bytes(seen, start, unit)
        return Footprint(**sets)
