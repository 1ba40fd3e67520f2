"""One checked dispatch: tells the runtime what may be touched, and reads back what was."""

from __future__ import annotations

import ctypes
import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..program import KernelSignature
from . import abi, intervals
from .arrays import Locate
from .errors import CheckedError
from .reports import Explainer

REPORTS = 16
_serials = itertools.count(1)

# An unbound slot points where no memory can be: the slot is in the upper bits, with room on both sides.
_TRAP = 0x7A00


@dataclass(frozen=True)
class Window:
    """Memory that the dispatch may touch: from where a slot is bound to the end, or a resident allocation."""

    start: int
    length: int
    access: int  # abi.READ | abi.WRITE
    space: Literal["buffer", "inline bytes", "resident buffer", "texture"] = "buffer"
    slot: int | None = None
    name: str = ""
    label: str = ""

    @property
    def end(self) -> int:
        return self.start + self.length


@dataclass(frozen=True)
class Footprint:
    """The addresses that a dispatch touched, by kind of access."""

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
    found: list[tuple[int, int, int]] = []
    readers = writers = 0
    for start, end in itertools.pairwise(sorted(changes)):
        readers, writers = readers + changes[start][0], writers + changes[start][1]
        access = (abi.READ if readers else 0) | (abi.WRITE if writers else 0)
        if access and found and found[-1][1:] == (start, access):
            found[-1] = (found[-1][0], end, access)
        elif access:
            found.append((start, end, access))
    return found


class DispatchCheck:
    """Fills `launch.check`; lives until the launch has run, and then answers `findings()` and `footprint()`."""

    def __init__(
        self, kernel: KernelSignature, launch: Any, windows: Sequence[Window], locate: Locate | None = None
    ) -> None:
        self._kernel = kernel
        self._locate = locate
        self._launch = launch
        self._windows = tuple(window for window in windows if window.length)
        self._bits: list[NDArray[np.uint64]] = []
        self._areas = self._make_areas()
        self._segments = self._make_segments()
        self._reports = (abi.Report * REPORTS)()
        self._check = abi.Check(
            segments=self._segments,
            areas=self._areas,
            reports=self._reports,
            segment_count=len(self._segments),
            area_count=len(self._areas),
            report_capacity=REPORTS,
            serial=next(_serials),
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
            area.reads = self._bitmap((end - start) // 64)
            if writable:
                area.writes, area.atomic_reads, area.atomic_writes = (
                    self._bitmap((end - start) // 64) for _ in range(3)
                )
                area.reader, area.writer = (self._bitmap((end - start) // 8) for _ in range(2))
        return areas

    def _bitmap(self, words: int) -> int:
        self._bits.append(np.zeros(words, np.uint64))
        return int(self._bits[-1].ctypes.data)

    def _make_segments(self) -> Any:
        found = _cut(self._windows)
        segments = (abi.SoftSegment * len(found))()
        area = 0
        for segment, (start, end, access) in zip(segments, found, strict=True):
            while self._areas[area].end < end:
                area += 1
            segment.start, segment.end, segment.access, segment.area = start, end, access, area
        return segments

    def findings(self) -> list[CheckedError]:
        """What the runtime reported, explained."""
        explainer = Explainer(self._kernel, self._windows, self._launch, trapped_slot, self._locate)
        return [explainer.explain(report) for report in self._reports[: self._check.report_count]]

    def footprint(self) -> Footprint:
        """The bytes that the dispatch touched; inline bytes are nobody else's and are left out."""
        sets = [intervals.EMPTY] * 4
        kinds = ("reads", "writes", "atomic_reads", "atomic_writes")
        arrays = {int(array.ctypes.data): array for array in self._bits}
        for area in self._areas:
            for index, kind in enumerate(kinds):
                if address := getattr(area, kind):
                    sets[index] |= intervals.of_bits(arrays[address], area.start)
        return Footprint(*sets)
