"""A dispatch as a value: checked once, then sent by a command encoder, kept by a recorder, replayed by a plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypedDict

from ..errors import InvalidArgument
from ..hazards.ranges import BufferRange, Span
from ..memory.buffer import MlxBuffer
from ..metal import Backend
from ..pipelines.pipeline import Pipeline
from .launch import DispatchKind, Launch, Size
from .parameters import Cell
from .textures import TextureArgument

__all__ = [
    "CapturedBarrier",
    "CapturedNode",
    "CapturedOpKind",
    "Dispatch",
    "DispatchOptions",
    "Dispatched",
    "RecordedBinding",
    "checked_kind",
]


class CapturedOpKind(Enum):
    """What a dispatch computes, as far as reordering and fusing care."""

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


class DispatchOptions(TypedDict, total=False):
    """What a dispatch may be told besides its arguments and its size."""

    shared: Any
    """The bytes of each threadgroup argument."""
    reads: Iterable[MlxBuffer] | None
    """What it reads, where that is not what the kernel's signature says."""
    writes: Iterable[MlxBuffer] | None
    kind: CapturedOpKind
    """What it computes, for graphs."""


OPTIONS = ("threads", "threadgroups", "group", *DispatchOptions.__annotations__)


@dataclass(frozen=True, slots=True)
class RecordedBinding:
    """One bound argument: a buffer (or view), which is kept alive, or a copy of inline bytes."""

    slot: int
    value: MlxBuffer | Cell | bytes

    @property
    def is_buffer(self) -> bool:
        return isinstance(self.value, MlxBuffer)


class CapturedNode:
    """One step of a recording: a `Dispatch` or a `CapturedBarrier`.

    >>> enc.start_capture()
    >>> enc.dispatch(axpy, x, y, 2.0, threads=4)
    >>> enc.memory_barrier()
    >>> dispatch, barrier = enc.take_capture()
    >>> dispatch.pipeline.name, dispatch.threads_per_grid, dispatch.dispatch_kind, barrier
    ('axpy', (4, 1, 1), <DispatchKind.Threads: 'threads'>, CapturedBarrier())
    >>> enc.replay_dispatch(dispatch)
    >>> enc.commit_and_wait()
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CapturedBarrier(CapturedNode):
    """A memory barrier that was placed by hand."""


Value = MlxBuffer | Cell | bytes | None
"""What is bound at a slot: a buffer, bytes that lie in one, or inline ones; None where there is no argument."""


@dataclass(frozen=True, slots=True)
class Dispatch(CapturedNode):
    """A kernel launch with everything that it needs, checked against what the kernel and the device allow."""

    pipeline: Pipeline
    values: tuple[Value, ...]
    """What is bound, by slot."""
    launch: Launch
    op_kind: CapturedOpKind
    reads: tuple[BufferRange, ...]
    writes: tuple[BufferRange, ...]
    declared: tuple[MlxBuffer, ...] = ()
    """Buffers that were named as read or written, bound or not."""
    textures: tuple[TextureArgument, ...] = ()
    """Its textures and samplers; the memory of textures is among `declared`."""
    region: tuple[str, ...] = field(default=(), compare=False)
    """The regions that were open when it was captured."""

    @property
    def bindings(self) -> tuple[RecordedBinding, ...]:
        """The slots that have something bound."""
        return tuple(RecordedBinding(slot, value) for slot, value in enumerate(self.values) if value is not None)

    @property
    def buffers(self) -> list[MlxBuffer]:
        """All buffers that it needs."""
        return [*(value for value in self.values if isinstance(value, MlxBuffer)), *self.declared]

    @property
    def spans(self) -> tuple[list[Span], list[Span]]:
        """What it reads and what it writes."""
        return [each.span for each in self.reads], [each.span for each in self.writes]

    def declare(self, backend: Backend, mtl: Any) -> None:
        """Has a checked device hold the next launch to its views and ranges."""
        if backend.declare is not None:
            views = {slot: value.nbytes for slot, value in enumerate(self.values) if isinstance(value, MlxBuffer)}
            reads, writes = ([span[1:] for span in spans] for spans in self.spans)
            backend.declare(mtl, views, reads, writes)

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
