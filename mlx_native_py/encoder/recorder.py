"""Recording: a recorder takes dispatches like a command encoder and keeps them, without a command buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from .. import counters
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import BUFFER_SLOTS, Pipeline
from ..profiling.regions import current_region
from .bind import bind
from .context import DeviceContext
from .dispatch import (
    CapturedBarrier,
    CapturedNode,
    CapturedOpKind,
    Dispatch,
    Value,
    checked_kind,
)
from .launch import Launch, Launchable, is_nothing, pipeline_of, plan_launch
from .named import take_named

__all__ = ["Encoder", "Recorder"]


class Encoder(Protocol):
    """What ops encode on: a `CommandEncoder` sends dispatches to the GPU, a `Recorder` keeps them."""

    @property
    def device(self) -> DeviceContext: ...

    def dispatch(
        self,
        kernel: Pipeline | Launchable,
        *args: Any,
        threads: Any = None,
        threadgroups: Any = None,
        group: Any = None,
        **options: Any,
    ) -> None: ...

    def empty(self, shape: int | Sequence[int], dtype: Any) -> MlxBuffer: ...

    def memory_barrier(self) -> None: ...


class Recorder:
    """Keeps dispatches and barriers as `nodes`; it is the encoder of a graph inside `device.capture()`."""

    def __init__(self, device: DeviceContext, tally: counters.Tally | None = None) -> None:
        self.device = device
        self._tally = counters.mine() if tally is None else tally
        self.nodes: list[CapturedNode] = []
        self.temporaries: list[MlxBuffer] = []
        """Buffers created by `empty`."""
        self._bound: list[Value] = [None] * BUFFER_SLOTS

    def dispatch(
        self,
        kernel: Pipeline | Launchable,
        *args: Any,
        threads: Any = None,
        threadgroups: Any = None,
        group: Any = None,
        **options: Any,
    ) -> None:
        """Records a launch; see `CommandEncoder.dispatch`. It is counted now, and not when it is replayed."""
        pipeline = pipeline_of(kernel, self.device)
        args = take_named(pipeline, args, options)
        if is_nothing(threads, threadgroups):
            return
        launch = plan_launch(pipeline, threads, threadgroups, group, options.get("shared", ()))
        kind = checked_kind(options.get("kind", CapturedOpKind.Other))
        self.record(pipeline, launch, args, options.get("reads"), options.get("writes"), kind)

    def record(
        self,
        pipeline: Pipeline,
        launch: Launch,
        args: Sequence[Any],
        reads: Iterable[MlxBuffer] | None,
        writes: Iterable[MlxBuffer] | None,
        kind: CapturedOpKind,
    ) -> None:
        """`dispatch` with a launch size that has been checked."""
        bound = self._bound.__getitem__
        dispatch = bind(self.device, pipeline, args, launch, reads=reads, writes=writes, kind=kind, bound=bound)
        region = current_region()
        self.keep(replace(dispatch, region=region) if region else dispatch)
        self._tally.dispatches += 1

    def keep(self, dispatch: Dispatch) -> None:
        """Records a dispatch that is already bound."""
        self.nodes.append(dispatch)
        for slot, value in enumerate(dispatch.values):
            if value is not None:
                self._bound[slot] = value

    def empty(self, shape: int | Sequence[int], dtype: Any) -> MlxBuffer:
        """A buffer for a result of the recorded work."""
        buffer = self.device.empty(shape, dtype)
        self.temporaries.append(buffer)
        return buffer

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """The memory of the temporaries."""
        return tuple(dict.fromkeys(buffer.allocation for buffer in self.temporaries))

    def memory_barrier(self) -> None:
        """Records a barrier; passes move nothing across it."""
        self.nodes.append(CapturedBarrier())

    def __repr__(self) -> str:
        return f"<Recorder of {len(self.nodes)} nodes>"
