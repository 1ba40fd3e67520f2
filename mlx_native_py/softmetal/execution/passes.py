"""Compute passes: dispatches, grouped into epochs separated by barriers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..engines.abi import SoftLaunch
from ..memory import DeviceMemory
from ..misuse import MetalMisuse
from ..program import KernelArgument, Size
from .pipeline import PipelineState
from .residency import Resident
from .textures import TextureState


@dataclass(frozen=True, eq=False)
class Declared:
    """The caller's declarations for a dispatch: lengths of views by slot, and the addresses in use.

    Other slots hold inline numbers, which are never written.
    """

    lengths: Mapping[int, int]
    reads: Sequence[tuple[int, int]]
    writes: Sequence[tuple[int, int]]


Steps = tuple[bytes, ...]  # what decides how many steps a dispatch takes; empty where that is not known


class PassItem:
    """An item of a pass: a dispatch, a counter sample, or the replay of an indirect command buffer."""

    __slots__ = ()


class EncodedDispatch(PassItem):
    """One dispatch with its bindings at the time of encoding."""

    __slots__ = (
        "allocations",
        "declared",
        "expected_ns",
        "group",
        "indirect",
        "launch",
        "pipeline",
        "resident",
        "shape",
        "steps",
        "textures",
        "threads",
    )
    declared: Declared  # set only where somebody declared something

    def __init__(
        self,
        pipeline: PipelineState,
        launch: SoftLaunch,
        shape: Size,
        threads: int,
        allocations: tuple[DeviceMemory | None, ...],
        resident: Resident,
        group: str,
        indirect: tuple[DeviceMemory, int] | None = None,
        textures: tuple[tuple[KernelArgument, TextureState], ...] = (),
    ) -> None:
        self.pipeline = pipeline
        self.launch = launch
        self.shape = shape  # threads per threadgroup
        self.threads = threads  # of the whole grid
        self.allocations = allocations  # by slot; None where inline bytes or nothing is bound
        self.resident = resident
        self.group = group  # debug groups around it, outermost first
        self.indirect = indirect  # where the threadgroup counts will be read
        self.textures = textures
        self.steps: Steps = ()  # what decides how many steps it takes
        self.expected_ns: float | None = None  # by earlier runs; None where that is not known, or memory decides

    @property
    def kernel(self) -> str:
        return self.pipeline.name

    @property
    def label(self) -> str:
        """How reports name this dispatch."""
        return f"{self.group}/{self.kernel}" if self.group else self.kernel

    def again(self, resident: Resident) -> EncodedDispatch:
        """The same with a launch of its own, since running one may change it."""
        launch = SoftLaunch.from_buffer_copy(self.launch)
        copy = EncodedDispatch(self.pipeline, launch, self.shape, self.threads, self.allocations, resident, self.group)
        if (declared := getattr(self, "declared", None)) is not None:
            copy.declared = declared
        return copy


@dataclass(frozen=True)
class Sample(PassItem):
    """A counter sample between dispatches."""

    samples: list[int]
    index: int


@dataclass(frozen=True)
class Attachment:
    """Samples at the start and end of a pass; None if not wanted."""

    samples: list[int]
    start: int | None
    end: int | None

    def take(self, start_ns: int, end_ns: int) -> None:
        if self.start is not None:
            self.samples[self.start] = start_ns
        if self.end is not None:
            self.samples[self.end] = end_ns


FenceUse = tuple[Literal["update", "wait"], Any]
"""What a pass does with a fence."""


@dataclass(frozen=True)
class Epoch:
    """The items between two barriers, in encoding order."""

    items: tuple[EncodedDispatch | Sample, ...]
    only: tuple[DeviceMemory, ...] | None = None  # the barrier before it orders only accesses to these


class Pass:
    """A compute pass: epochs run in order; items inside an epoch may run in any order."""

    __slots__ = ("attachments", "concurrent", "epochs", "fences", "label", "only", "signposts")

    def __init__(self, concurrent: bool, attachments: tuple[Attachment, ...] = ()) -> None:
        self.concurrent = concurrent
        self.attachments = attachments
        self.label: str | None = None
        self.signposts: list[str] = []
        self.fences: list[FenceUse] = []
        self.epochs: list[list[PassItem]] = [[]]
        # An epoch opened by memoryBarrierWithResources orders only accesses to these allocations.
        self.only: dict[int, tuple[DeviceMemory, ...]] = {}

    def add(self, item: PassItem) -> None:
        if self.concurrent and type(item) is not Sample:
            self.epochs[-1].append(item)
            return
        if self.epochs[-1]:
            self.epochs.append([item])
        else:
            self.epochs[-1].append(item)
        if self.concurrent:
            self.epochs.append([])

    def dispatches(self) -> Iterator[EncodedDispatch]:
        """Those that are encoded directly, so far."""
        return (item for epoch in self.epochs for item in epoch if isinstance(item, EncodedDispatch))

    def textures(self) -> Iterator[tuple[KernelArgument, TextureState]]:
        """What its dispatches so far have as textures."""
        return (bound for dispatch in self.dispatches() for bound in dispatch.textures)

    def buffers(self) -> set[DeviceMemory]:
        """The memory that its dispatches so far may touch as buffers."""
        bound = {each for dispatch in self.dispatches() for each in dispatch.allocations if each is not None}
        return bound.union(*(dispatch.resident for dispatch in self.dispatches()))

    def barrier(self, only: tuple[DeviceMemory, ...] | None = None) -> None:
        """Starts a new epoch; a serial pass has one before each dispatch anyway."""
        if self.concurrent and self.epochs[-1]:
            self.epochs.append([])
            if only is not None:
                self.only[len(self.epochs) - 1] = only


class LostResource(MetalMisuse):
    """A dispatch uses memory that was freed or is not resident; becomes the command buffer's error."""
