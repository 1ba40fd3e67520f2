"""Batches of dispatches for one call of the runtime, each with the fastest code available."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engines.abi import SoftLaunch
from ..engines.runtime import Runtime, RuntimeCall
from ..isolation.runtime import IsolatedCall, IsolatedRuntime
from ..options import SoftOptions
from ..program import Size
from .estimate import note, steps_of
from .passes import EncodedDispatch
from .pipeline import PipelineState

MOST_TIMED = 16  # dispatches of a batch whose times are noted


class LaunchBatch:
    """Dispatches that run one after the other in one call of the runtime."""

    __slots__ = ("_launches", "dispatches")

    def __init__(self, dispatches: Sequence[EncodedDispatch]) -> None:
        self.dispatches = dispatches
        for dispatch in dispatches:
            dispatch.pipeline.aim(dispatch.launch, dispatch.shape, dispatch.threads)
            if dispatch.pipeline.code.has_loops:
                steps_of(dispatch)
        self._launches: Any = dispatches[0].launch
        if len(dispatches) > 1:
            self._launches = (SoftLaunch * len(dispatches))(*[dispatch.launch for dispatch in dispatches])

    def prepare(
        self, runtime: Runtime | IsolatedRuntime, options: SoftOptions, *, brief: bool = False
    ) -> RuntimeCall | IsolatedCall:
        """The call of the runtime; a `brief` one is over before other Python threads miss the interpreter."""
        count, seconds, threads = len(self.dispatches), options.watchdog_seconds, options.threads or 0
        return runtime.prepare(self._launches, count, seconds, threads, brief)

    def ran(self, times: Any) -> None:
        """Notes what the launches took, for the estimate of short runs."""
        if len(self.dispatches) == 1:
            note(self.dispatches[0], times[1] - times[0])
        elif len(self.dispatches) <= MOST_TIMED:
            for index, dispatch in enumerate(self.dispatches):
                note(dispatch, times[2 * index + 1] - times[2 * index])


def is_settled(pipeline: PipelineState, shape: Size) -> bool:
    """Whether the code for threadgroups of this shape will not change any more."""
    return shape in pipeline.engines and pipeline.is_settled(shape)
