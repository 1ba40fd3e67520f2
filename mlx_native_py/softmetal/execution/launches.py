"""Dispatches put together for one call of the runtime, each with the fastest code that is ready for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engines.abi import FIBERS, FLAT, LANES, Launch
from ..engines.runtime import Runtime, RuntimeCall
from ..options import SoftOptions
from ..program import Size, Specialised
from .passes import Dispatch
from .pipeline import PipelineState

MOST_TIMED = 16  # dispatches of a batch whose times are noted one by one


def specialise(dispatch: Dispatch) -> Specialised | None:
    """Puts code for the lanes engine into the launch if there is some; groups at the grid's edge keep the first."""
    pipeline, launch = dispatch.pipeline, dispatch.launch
    code = pipeline.code
    found = code.tiers.choose(dispatch.shape) if code.tiers is not None else None
    pipeline.last_engine = pipeline.engines[dispatch.shape] = code.engine if found is None else "lanes"
    if found is not None:
        launch.engine = FLAT if found.engine == "flat" else LANES
        launch.entry = found.entry
        launch.stack_bytes = max(found.stack_bytes, code.stack_bytes)
        launch.edge_entry = code.entry
        launch.edge_engine = FLAT if code.engine == "flat" else FIBERS
    return found


class Batch:
    """Dispatches that run one after the other in one call of the runtime."""

    __slots__ = ("_codes", "_launches", "dispatches")

    def __init__(self, dispatches: Sequence[Dispatch]) -> None:
        self.dispatches = dispatches
        self._codes = [specialise(dispatch) for dispatch in dispatches]
        launches = [dispatch.launch for dispatch in dispatches]
        self._launches: Any = launches[0] if len(launches) == 1 else (Launch * len(launches))(*launches)

    def prepare(self, runtime: Runtime, options: SoftOptions) -> RuntimeCall:
        return runtime.prepare(self._launches, len(self.dispatches), options.watchdog_seconds, options.threads or 0)

    def ran(self, times: Any) -> None:
        """Tells the choice of engines, and the estimate of short runs, what the launches took."""
        few = len(self.dispatches) <= MOST_TIMED
        for index, dispatch in enumerate(self.dispatches):
            pipeline, shape = dispatch.pipeline, dispatch.shape
            tiers = pipeline.code.tiers
            listens = tiers is not None and tiers.listens(shape)
            if few or listens:
                taken = times[2 * index + 1] - times[2 * index]
                pipeline.ns_per_thread[shape] = taken / dispatch.threads
                if tiers is not None and listens:
                    tiers.ran(shape, self._codes[index], dispatch.threads, taken)


class KeptBatch(Batch):
    """A batch that is run again and again: its kernels have found their engines, so nobody asks for times."""

    __slots__ = ()

    def ran(self, times: Any) -> None:
        """Nothing is to be learnt."""


def is_settled(pipeline: PipelineState, shape: Size) -> bool:
    """Whether the code for threadgroups of this shape will not change any more."""
    return shape in pipeline.engines and pipeline.is_settled()
