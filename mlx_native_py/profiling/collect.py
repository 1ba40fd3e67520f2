"""Builds the profile record of a command buffer: dispatches, barriers, and measured or apportioned times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..hazards.tracker import Conflict, touched
from .kernel_profile import APPORTIONED
from .observer import CommandBufferNotes
from .op_calls import key_of, look_up
from .records import BarrierRecord, CommandBufferRecord, DispatchRecord

__all__ = ["mark_gaps", "record_of"]

_LEAST = 4096
"""The minimum number of bytes that a dispatch counts for when a command buffer's time is apportioned."""
_BALANCE = 10
"""Floating-point operations that count as much as one byte in apportioning."""


def record_of(notes: CommandBufferNotes) -> CommandBufferRecord:
    """The record of a completed command buffer."""
    dispatches, barriers = _Reading(notes).read()
    record = CommandBufferRecord(
        sequence=notes.sequence,
        label=notes.label or "(no label)",
        device=notes.device.name,
        thread=notes.thread,
        opened_ns=notes.opened,
        ended_ns=notes.ended,
        committed_ns=notes.committed,
        start_ns=notes.gpu[0],
        end_ns=notes.gpu[1],
        how=str(notes.provenance),
        dispatch_timing=str(notes.dispatch_timing or ""),
        failed=notes.failed,
        dispatches=dispatches,
        barriers=barriers,
        memory=notes.memory,
    )
    _time(record, notes)
    return record


class _Reading:
    """Reads the log of a command buffer, in which a plan is one entry with many dispatches."""

    def __init__(self, notes: CommandBufferNotes) -> None:
        self._notes = notes
        self._dispatches: list[DispatchRecord] = []
        self._barriers: list[BarrierRecord] = []
        self._first: list[int] = []  # of each entry of the log: the number of its first dispatch

    def read(self) -> tuple[list[DispatchRecord], list[BarrierRecord]]:
        notes = self._notes
        waits, regions = dict(notes.barriers), list(notes.regions)
        region: tuple[str, ...] = ()
        for at, entry in enumerate(notes.log):
            while regions and regions[0][0] <= at:
                region = regions.pop(0)[1]
            self._first.append(len(self._dispatches))
            if at in waits:
                self._barriers.append(self._barrier(at, waits[at]))
            if at in notes.plans:
                self._read_plan(at, region)
            elif isinstance(entry[0], list):  # a plan that was replayed on notes of another profile
                for pipeline in entry[0]:
                    self._add(pipeline.label, "", (), (), region)
            else:
                kind = notes.kinds.get(at)
                self._add(entry[0].label, kind.value if kind else "", *touched(entry), region)
        return self._dispatches, self._barriers

    def _read_plan(self, at: int, region: tuple[str, ...]) -> None:
        first = len(self._dispatches)
        for index, each in enumerate(self._notes.plans[at]):
            if each.barrier:
                earlier, hazard = (first + each.conflict[0], each.conflict[1]) if each.conflict else (-1, None)
                self._barriers.append(_barrier(first + index, earlier, hazard))
            self._add(each.kernel, each.kind, each.reads, each.writes, region + each.region)

    def _barrier(self, at: int, since: int | None) -> BarrierRecord:
        before = self._first[at]
        if since is None:
            return BarrierRecord(before)
        earlier, hazard = Conflict(self._notes.log, since, at, touched(self._notes.log[at]), at).look_up()
        return _barrier(before, self._first[earlier], hazard)

    def _add(
        self, kernel: str, kind: str, reads: Sequence[Any], writes: Sequence[Any], region: tuple[str, ...]
    ) -> None:
        call = look_up(key_of(kernel, reads, writes))
        sizes = _total(reads), _total(writes)
        self._dispatches.append(
            DispatchRecord(len(self._dispatches), kernel, call.op, kind, region, *sizes, call.flops)
        )


def _barrier(before: int, earlier: int, hazard: Any) -> BarrierRecord:
    if hazard is None:
        return BarrierRecord(before)
    memory = hazard.allocation
    return BarrierRecord(before, earlier, hazard.kind.name, str(memory), hazard.offset, hazard.nbytes)


def _total(spans: Iterable[Any]) -> int:
    return sum(end - start for _, start, end in spans)


def _time(record: CommandBufferRecord, notes: CommandBufferNotes) -> None:
    """Sets each dispatch's measured time, or its share of the command buffer's time by bytes and arithmetic."""
    for entry in notes.dispatches:
        dispatch = record.dispatches[entry.dispatch_index]
        dispatch.start_ns, dispatch.end_ns, dispatch.gpu_ns = entry.start_gpu_ns, entry.end_gpu_ns, entry.gpu_ns
        dispatch.how = str(entry.provenance)
    if notes.dispatches or record.failed:
        return
    weights = [each.nbytes + each.flops / _BALANCE + _LEAST for each in record.dispatches]
    total = sum(weights)
    for dispatch, weight in zip(record.dispatches, weights, strict=True):
        dispatch.gpu_ns = record.gpu_ns * weight / total
        dispatch.how = record.how if len(weights) == 1 else f"{APPORTIONED.how} ({record.how})"


def mark_gaps(records: Sequence[CommandBufferRecord]) -> None:
    """Sets the idle time before each command buffer of a device and before each timed dispatch."""
    ends: dict[str, int] = {}
    for record in sorted(records, key=lambda each: each.start_ns):
        before = ends.get(record.device, record.start_ns)
        record.gap_ns = max(0, record.start_ns - before)
        ends[record.device] = max(before, record.end_ns)
        free = record.start_ns
        for dispatch in record.dispatches:
            if dispatch.end_ns:
                dispatch.gap_ns = max(0, dispatch.start_ns - free)
                free = max(free, dispatch.end_ns)
