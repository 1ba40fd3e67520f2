"""A dispatch as a value: checked once, then sent by an encoder, kept by a recorder, or replayed by a plan."""

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
    """The kind of computation, used by the reorder and fusion passes."""

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
    """Returns `kind`, or raises if it is not a CapturedOpKind."""
    if not isinstance(kind, CapturedOpKind):
        raise InvalidArgument(f"kind is {kind!r}, expected a CapturedOpKind")
    return kind


class DispatchOptions(TypedDict, total=False):
    """Options of a dispatch besides its arguments and launch size."""

    shared: Any
    """Bytes of each threadgroup argument."""
    reads: Iterable[MlxBuffer] | None
    """Buffers that it reads, overriding the kernel's signature."""
    writes: Iterable[MlxBuffer] | None
    kind: CapturedOpKind
    """What it computes, for graph passes."""


OPTIONS = ("threads", "threadgroups", "group", *DispatchOptions.__annotations__)


@dataclass(frozen=True, slots=True)
class RecordedBinding:
    """One bound argument: a buffer or view, which is kept alive, or a copy of inline bytes."""

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
    """A recorded memory barrier that the caller placed."""


Value = MlxBuffer | Cell | bytes | None
"""A bound value: a buffer, parameter bytes stored in a buffer, inline bytes, or None for an empty slot."""


@dataclass(frozen=True, slots=True)
class Dispatch(CapturedNode):
    """A kernel launch with everything it needs, checked against the limits of the kernel and the device."""

    pipeline: Pipeline
    values: tuple[Value, ...]
    """Bound values by slot."""
    launch: Launch
    op_kind: CapturedOpKind
    reads: tuple[BufferRange, ...]
    writes: tuple[BufferRange, ...]
    declared: tuple[MlxBuffer, ...] = ()
    """Buffers named in `reads=` or `writes=`, bound or not."""
    textures: tuple[TextureArgument, ...] = ()
    """Textures and samplers; the memory of the textures is in `declared`."""
    region: tuple[str, ...] = field(default=(), compare=False)
    """The profiling regions that were open when it was captured."""

    @property
    def bindings(self) -> tuple[RecordedBinding, ...]:
        """The slots that have a value."""
        return tuple(RecordedBinding(slot, value) for slot, value in enumerate(self.values) if value is not None)

    @property
    def buffers(self) -> list[MlxBuffer]:
        """All buffers that it uses."""
        return [*(value for value in self.values if isinstance(value, MlxBuffer)), *self.declared]

    @property
    def spans(self) -> tuple[list[Span], list[Span]]:
        """The byte spans that it reads, and those that it writes."""
        return [each.span for each in self.reads], [each.span for each in self.writes]

    def declare(self, backend: Backend, mtl: Any) -> None:
        """On a checked device, restricts the next launch to the declared views and ranges."""
        if backend.declare is not None:
            views = {slot: value.nbytes for slot, value in enumerate(self.values) if isinstance(value, MlxBuffer)}
            reads, writes = ([span[1:] for span in spans] for spans in self.spans)
            backend.declare(mtl, views, reads, writes)

    @property
    def dispatch_kind(self) -> DispatchKind:
        return self.launch.kind

    @property
    def threads_per_grid(self) -> Size:
        """In threads or threadgroups, depending on `dispatch_kind`."""
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
    """An encoded dispatch: its index in the command buffer, its kernel and its kind."""

    index: int
    pipeline: Pipeline
    kind: CapturedOpKind

    def __str__(self) -> str:
        return f"dispatch {self.index} ({self.pipeline.label})"
