"""Converts a profile to a trace: encoding, command buffers, dispatches, regions, barriers, memory and counters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from .records import CommandBufferRecord, DispatchRecord, SpanRecord
from .trace import Event, Trace

__all__ = ["trace_of"]

_MAX_LISTED = 20  # barriers and kernels listed for a command buffer without dispatch timings


def trace_of(records: Sequence[CommandBufferRecord], spans: Sequence[SpanRecord], trace: Trace) -> Trace:
    """Adds all records to a trace."""
    threads = {each: number for number, each in enumerate(dict.fromkeys(record.thread for record in records), 1)}
    for record in records:
        commit = _encoding(record, f"CPU thread {threads[record.thread]}", trace)
        _command_buffer(record, commit, trace)
    for span in spans:
        trace.span(span.track, span.name, span.start_ns, span.end_ns, **span.args)
    _counters(records, trace)
    return trace


def _encoding(record: CommandBufferRecord, track: str, trace: Trace) -> Event:
    """Adds the CPU spans; returns that of the commit."""
    args = {"dispatches": len(record.dispatches), "barriers": len(record.barriers), "sequence": record.sequence}
    trace.span(track, f"encode {record.label}", record.opened_ns, record.committed_ns, **args)
    return trace.span(track, "commit", record.ended_ns, record.committed_ns, sequence=record.sequence)


def _command_buffer(record: CommandBufferRecord, commit: Event, trace: Trace) -> None:
    args: dict[str, Any] = {
        "sequence": record.sequence,
        "dispatches": len(record.dispatches),
        "gap_us": record.gap_ns / 1e3,
        "how": "failed" if record.failed else record.how,
    }
    timed = [each for each in record.dispatches if each.end_ns]
    if not timed:
        args["kernels"] = ", ".join(dict.fromkeys(each.kernel for each in record.dispatches[:_MAX_LISTED]))
        args["barriers"] = [f"before {each.before}: {each.reason}" for each in record.barriers[:_MAX_LISTED]]
    track = f"GPU command buffers, {record.device}"
    trace.arrow("submit", commit, trace.span(track, record.label, record.start_ns, record.end_ns, **args))
    if timed:
        _regions(record, timed, trace)
        _dispatches(record, timed, trace)


def _within(record: CommandBufferRecord, dispatch: DispatchRecord) -> tuple[int, int]:
    """Clamps a dispatch to its command buffer, since the clocks differ slightly."""
    start = min(max(dispatch.start_ns, record.start_ns), record.end_ns)
    return start, min(max(dispatch.end_ns, start), record.end_ns)


def _regions(record: CommandBufferRecord, timed: Sequence[DispatchRecord], trace: Trace) -> None:
    """One span per run of dispatches in the same region, nested."""
    for depth in range(1, 1 + max(len(each.region) for each in timed)):
        for path, neighbours in groupby(timed, key=lambda each: each.region[:depth]):
            if len(path) == depth:
                first, *_, last = [*neighbours] * 2
                start, end = _within(record, first)[0], _within(record, last)[1]
                trace.span(f"regions, {record.device}", path[-1], start, end)


def _dispatches(record: CommandBufferRecord, timed: Sequence[DispatchRecord], trace: Trace) -> None:
    barriers = {barrier.before: barrier for barrier in record.barriers}
    spans: dict[int, Event] = {}
    for dispatch in timed:
        barrier = barriers.get(dispatch.index)
        args: dict[str, Any] = {
            "op": dispatch.op,
            "region": "/".join(dispatch.region),
            "bytes_read": dispatch.bytes_read,
            "bytes_written": dispatch.bytes_written,
            "GB/s": round(dispatch.nbytes / max(1.0, dispatch.gpu_ns), 3),
            "how": dispatch.how,
            "warm_up": dispatch.warm_up,
        }
        if barrier is not None:
            args["waits_because"] = barrier.reason
        track = f"GPU dispatches, {record.device}"
        span = spans[dispatch.index] = trace.span(track, dispatch.kernel, *_within(record, dispatch), **args)
        span["id_of"] = f"{record.sequence}/{dispatch.index}"
        if barrier is not None and barrier.earlier in spans:
            trace.arrow(f"barrier {barrier.hazard}", spans[barrier.earlier], span, reason=barrier.reason)


def _counters(records: Sequence[CommandBufferRecord], trace: Trace) -> None:
    for when, nbytes in sorted(moment for record in records for moment in record.memory):
        trace.counter("device memory", when, bytes=nbytes)
    dispatches = barriers = 0
    for record in sorted(records, key=lambda each: each.committed_ns):
        dispatches += len(record.dispatches)
        barriers += len(record.barriers)
        trace.counter("dispatches", record.committed_ns, committed=dispatches)
        trace.counter("barriers", record.committed_ns, committed=barriers)
