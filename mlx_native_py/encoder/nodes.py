"""What capture mode records: dispatches and barriers as values, ready to be replayed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ..errors import InvalidArgument
from ..hazards.ranges import BufferRange
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from .launch import Launch

__all__ = [
    "CapturedBarrier",
    "CapturedDispatch",
    "CapturedNode",
    "CapturedOpKind",
    "DispatchKind",
    "Dispatched",
    "RecordedBinding",
    "checked_kind",
]

Size = tuple[int, int, int]


class CapturedOpKind(Enum):
    """What a dispatch computes, as far as reordering and fusing care.

    >>> CapturedOpKind.Sdpa.is_reorderable(), CapturedOpKind.Other.is_reorderable()
    (False, True)
    """

    RmsNorm = "RmsNorm"
    ElemMul = "ElemMul"
    ElemAdd = "ElemAdd"
    Sdpa = "Sdpa"
    Softmax = "Softmax"
    Other = "Other"

    def is_reorderable(self) -> bool:
        """Whether other dispatches may be moved past it."""
        return self not in (CapturedOpKind.Sdpa, CapturedOpKind.Softmax)


def checked_kind(kind: CapturedOpKind) -> CapturedOpKind:
    """`kind` itself, where it is one."""
    if not isinstance(kind, CapturedOpKind):
        raise InvalidArgument(f"kind is {kind!r}, expected a CapturedOpKind")
    return kind


class DispatchKind(Enum):
    """What a launch counts: threads, or threadgroups.

    >>> DispatchKind("threadgroups").name
    'ThreadGroups'
    """

    Threads = "threads"
    ThreadGroups = "threadgroups"


@dataclass(frozen=True, slots=True)
class RecordedBinding:
    """One bound argument: a buffer (or view), which is kept alive, or a copy of inline bytes.

    >>> RecordedBinding(0, x).is_buffer, RecordedBinding(2, b"\\0\\0\\0\\0").is_buffer
    (True, False)
    """

    slot: int
    value: MlxBuffer | bytes

    @property
    def is_buffer(self) -> bool:
        return isinstance(self.value, MlxBuffer)


class CapturedNode:
    """One step of a recording: a `CapturedDispatch` or a `CapturedBarrier`.

    >>> enc.start_capture()
    >>> enc.dispatch(axpy, x, y, 2.0, threads=4)
    >>> enc.memory_barrier()
    >>> node, barrier = enc.take_capture()
    >>> node.pipeline.name, node.threads_per_grid, node.dispatch_kind, barrier
    ('axpy', (4, 1, 1), <DispatchKind.Threads: 'threads'>, CapturedBarrier())
    >>> [(binding.slot, binding.is_buffer) for binding in node.bindings]
    [(0, True), (1, True), (2, False)]
    >>> enc.replay_dispatch(node)
    >>> enc.commit_and_wait()
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CapturedBarrier(CapturedNode):
    """A memory barrier.

    >>> recorder = device.command_encoder()
    >>> recorder.start_capture()
    >>> recorder.memory_barrier()
    >>> recorder.take_capture()
    [CapturedBarrier()]
    """


@dataclass(frozen=True, slots=True)
class CapturedDispatch(CapturedNode):
    """A kernel launch with everything that it needs.

    >>> recorder = device.command_encoder()
    >>> recorder.start_capture()
    >>> recorder.dispatch(axpy, x, y, 2.0, threadgroups=2, group=2)
    >>> [node] = recorder.take_capture()
    >>> node.dispatch_kind.name, node.threads_per_grid, node.threads_per_threadgroup, len(node.writes)
    ('ThreadGroups', (2, 1, 1), (2, 1, 1), 1)
    """

    pipeline: Pipeline
    bindings: tuple[RecordedBinding, ...]
    launch: Launch
    op_kind: CapturedOpKind
    reads: tuple[BufferRange, ...]
    writes: tuple[BufferRange, ...]
    declared: tuple[MlxBuffer, ...] = ()
    """Buffers that were named as read or written, bound or not."""

    @property
    def buffers(self) -> list[MlxBuffer]:
        """All buffers that it needs."""
        return [*(each.value for each in self.bindings if isinstance(each.value, MlxBuffer)), *self.declared]

    @property
    def dispatch_kind(self) -> DispatchKind:
        return self.launch.kind

    @property
    def threads_per_grid(self) -> Size:
        """In threads or in threadgroups, as `dispatch_kind` says."""
        return self.launch.grid

    @property
    def threads_per_threadgroup(self) -> Size:
        return self.launch.group

    @property
    def threadgroup_memory(self) -> tuple[tuple[int, int], ...]:
        """(index, bytes) of each threadgroup argument."""
        return self.launch.shared


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A dispatch that was encoded: its place in the command buffer, its kernel and its kind."""

    index: int
    pipeline: Pipeline
    kind: CapturedOpKind

    def __str__(self) -> str:
        return f"dispatch {self.index} ({self.pipeline.label})"
