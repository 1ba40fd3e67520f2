"""Estimates of a dispatch's duration from earlier launches."""

from __future__ import annotations

import ctypes

from ..engines.abi import SoftLaunch
from .passes import EncodedDispatch, Steps
from .pipeline import PipelineState

_MOST_KEPT = 256
_GRID_BYTES = SoftLaunch.engine.offset - SoftLaunch.threads.offset
_read = ctypes.string_at


def expected_ns(dispatch: EncodedDispatch) -> float | None:
    """What the next run will take; None where that is not known, or depends on what memory holds."""
    pipeline = dispatch.pipeline
    if pipeline.code.has_loops:
        return pipeline.taken_ns.get(steps_of(dispatch))
    pace = pipeline.ns_per_thread.get(dispatch.shape)
    return None if pace is None else pace * dispatch.threads


def note(dispatch: EncodedDispatch, taken_ns: int) -> None:
    """Keeps what a run took; `steps_of` was asked before it."""
    pipeline = dispatch.pipeline
    pipeline.ns_per_thread[dispatch.shape] = taken_ns / dispatch.threads
    if dispatch.steps:
        if len(pipeline.taken_ns) >= _MOST_KEPT:
            pipeline.taken_ns.clear()
        pipeline.taken_ns[dispatch.steps] = taken_ns


def steps_of(dispatch: EncodedDispatch) -> Steps:
    """The same for dispatches whose loops go round equally often; empty where other memory decides about that.

    What setBytes bound cannot change any more; what a buffer holds can, until the kernel runs.
    """
    if dispatch.steps is None:
        dispatch.steps = _steps(dispatch.pipeline, dispatch)
    return dispatch.steps


def _steps(pipeline: PipelineState, dispatch: EncodedDispatch) -> Steps:
    slots = pipeline.code.lanes.decided_by(dispatch.shape) if pipeline.code.lanes is not None else None
    if slots is None or dispatch.indirect is not None or pipeline.table in slots:
        return ()
    launch, allocations = dispatch.launch, dispatch.allocations
    buffers, lengths = launch.buffers, launch.lengths
    steps = [_read(ctypes.addressof(launch) + SoftLaunch.threads.offset, _GRID_BYTES)]
    for slot in slots:
        if allocations[slot] is not None:
            return ()
        steps.append(_read(buffers[slot], lengths[slot]))
    return tuple(steps)
