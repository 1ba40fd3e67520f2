"""What a compute encoder records: dispatches, grouped into epochs that barriers separate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..memory import Allocation
from ..misuse import MetalMisuse

if TYPE_CHECKING:
    from .counters import MTLCounterSampleBuffer
    from .indirect import MTLIndirectCommandBuffer
    from .pipeline import MTLComputePipelineState


# Memory that kernels may reach through pointers, with its MTLResourceUsage; never changed once handed out.
Resident = Mapping[Allocation, int]


class Dispatch:
    """One dispatch with everything it was bound to, as of the moment it was encoded."""

    __slots__ = ("pipeline", "launch", "shape", "allocations", "resident", "group", "indirect")

    def __init__(
        self,
        pipeline: MTLComputePipelineState,
        launch: Any,
        shape: tuple[int, int, int],
        allocations: tuple[Allocation | None, ...],
        resident: Resident,
        group: str,
        indirect: tuple[Allocation, int] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.launch = launch
        self.shape = shape  # threads per threadgroup
        self.allocations = allocations  # by slot; None where inline bytes or nothing is bound
        self.resident = resident
        self.group = group  # debug groups around it, outermost first
        self.indirect = indirect  # where the threadgroup counts will be read

    @property
    def kernel(self) -> str:
        return self.pipeline._name

    @property
    def label(self) -> str:
        """How reports name this dispatch."""
        return f"{self.group}/{self.kernel}" if self.group else self.kernel


@dataclass(frozen=True)
class Replay:
    """The execution of a range of an indirect command buffer."""

    commands: MTLIndirectCommandBuffer
    first: int
    count: int
    inherited: Any  # the encoder's bindings of that moment
    resident: Resident
    group: str = ""
    span: tuple[Allocation, int] | None = None  # where (location, length) will be read instead


@dataclass(frozen=True)
class Sample:
    """A counter sample between dispatches."""

    buffer: MTLCounterSampleBuffer
    index: int


@dataclass(frozen=True)
class Attachment:
    """Samples at the two ends of a pass; None where none is wanted."""

    buffer: MTLCounterSampleBuffer
    start: int | None
    end: int | None


Item = Dispatch | Replay | Sample


@dataclass(frozen=True)
class Epoch:
    """What runs between two barriers, in the order of encoding."""

    items: tuple[Dispatch | Sample, ...]
    only: tuple[Allocation, ...] | None = None  # the barrier before it orders only accesses to these


@dataclass
class Pass:
    """A compute pass: epochs run one after the other; inside an epoch any order is right."""

    concurrent: bool
    attachments: tuple[Attachment, ...] = ()
    label: str | None = None
    signposts: list[str] = field(default_factory=list)
    epochs: list[list[Item]] = field(default_factory=lambda: [[]])
    # An epoch opened by memoryBarrierWithResources orders only accesses to these allocations.
    only: dict[int, tuple[Allocation, ...]] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        if self.concurrent and not isinstance(item, Sample):
            self.epochs[-1].append(item)
        elif self.epochs[-1]:
            self.epochs.append([item])
        else:
            self.epochs[-1].append(item)
        if isinstance(item, Sample) and self.concurrent:
            self.epochs.append([])

    def barrier(self, only: tuple[Allocation, ...] | None = None) -> None:
        """Starts a new epoch; a serial pass has one before each dispatch anyway."""
        if self.concurrent and self.epochs[-1]:
            self.epochs.append([])
            if only is not None:
                self.only[len(self.epochs) - 1] = only

    def resolved(self, standing: Resident) -> Iterator[Epoch]:
        """The epochs, with indirect command buffers replaced by the dispatches they hold when their turn comes."""
        for index, epoch in enumerate(self.epochs):
            only = self.only.get(index)
            current: list[Dispatch | Sample] = []
            for item in epoch:
                if not isinstance(item, Replay):
                    current.append(item)
                    continue
                first, *later = item.commands._expand(item, {**standing, **item.resident})
                current.extend(first)
                for part in later:
                    yield Epoch(tuple(current), only)
                    current, only = list(part), None
            if current:
                yield Epoch(tuple(current), only)


class LostResource(MetalMisuse):
    """A dispatch uses memory that is gone, or that nobody made resident; becomes the command buffer's error."""
