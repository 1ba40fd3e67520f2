"""Batches of dispatches for one call of the runtime, each with the fastest code available."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engines.abi import SoftLaunch
from ..program import Size
from .passes import EncodedDispatch
from .pipeline import PipelineState

MOST_TIMED = 16  # dispatches of a batch whose times are noted
_MOST_KEPT = 256  # times of a pipeline


class LaunchBatch:
    """Dispatches that run one after the other in one call of the runtime."""

    __slots__ = ("dispatches", "launches")

    def __init__(self, dispatches: Sequence[EncodedDispatch]) -> None:
        self.dispatches = dispatches
        launches = []
        for dispatch in dispatches:
            launch = SoftLaunch.from_buffer_copy(dispatch.launch)  # another thread may be running the dispatch's own
            dispatch.pipeline.aim(launch, dispatch.shape, dispatch.threads)
            launches.append(launch)
        self.launches: Any = launches[0] if len(launches) == 1 else (SoftLaunch * len(launches))(*launches)

    def ran(self, times: Any) -> None:
        """Notes what the launches took, for the `expected_ns` of those that come."""
        if len(self.dispatches) > MOST_TIMED:
            return
        place = 0
        for dispatch in self.dispatches:
            taken_ns, pipeline = times[place + 1] - times[place], dispatch.pipeline
            pipeline.ns_per_thread[dispatch.shape] = taken_ns / dispatch.threads
            if dispatch.steps:
                if len(pipeline.taken_ns) >= _MOST_KEPT:
                    pipeline.taken_ns.clear()
                pipeline.taken_ns[dispatch.steps] = taken_ns
            place += 2


def is_settled(pipeline: PipelineState, shape: Size) -> bool:
    """Whether the code for threadgroups of this shape will not change any more."""
    return shape in pipeline.engines and pipeline.is_settled(shape)
