"""Profile records: command buffers, dispatches, barriers and spans as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["BarrierRecord", "CommandBufferRecord", "DispatchRecord", "SpanRecord", "from_fields"]

T = TypeVar("T", bound="DataclassInstance")


@dataclass(slots=True)
class DispatchRecord:
    """One dispatch; times are nanoseconds on the CPU's monotonic clock."""

    index: int
    """Its index in the command buffer."""
    kernel: str
    op: str
    """The op that launched it; empty for kernels called directly."""
    kind: str
    region: tuple[str, ...]
    bytes_read: int
    bytes_written: int
    """Sizes of the tracked ranges: an upper bound on what it accesses."""
    flops: int
    """Floating-point operations, if the op reports them; otherwise 0."""
    start_ns: int = 0
    end_ns: int = 0
    """Both 0 if it was not timed individually."""
    gpu_ns: float = 0.0
    gap_ns: int = 0
    """Idle time before it."""
    how: str = ""
    """How its time was obtained."""
    warm_up: bool = False
    """Whether it is the first timed call of its kernel."""

    @property
    def nbytes(self) -> int:
        return self.bytes_read + self.bytes_written


@dataclass(slots=True)
class BarrierRecord:
    """A memory barrier before dispatch `before`; `hazard` is RAW, WAR or WAW, or empty if the caller placed it."""

    before: int
    earlier: int = -1
    """The dispatch that is waited for; -1 if unknown."""
    hazard: str = ""
    memory: str = ""
    offset: int = 0
    nbytes: int = 0

    @property
    def reason(self) -> str:
        """The hazard and its bytes, or "placed by hand".

        >>> BarrierRecord(3, 1, "RAW", "x", 0, 64).reason
        'RAW on bytes 0..64 of x'
        """
        if not self.hazard:
            return "placed by hand"
        return f"{self.hazard} on bytes {self.offset}..{self.offset + self.nbytes} of {self.memory}"


@dataclass(slots=True)
class CommandBufferRecord:
    """One command buffer from opening to completion; times as for dispatches."""

    sequence: int
    label: str
    device: str
    thread: int
    opened_ns: int
    ended_ns: int
    """When encoding ended and the commit began."""
    committed_ns: int
    start_ns: int
    end_ns: int
    """Start and end on the GPU."""
    how: str
    dispatch_timing: str = ""
    """How its dispatches were timed individually; empty if they were not."""
    failed: bool = False
    warm_up: bool = False
    """Whether it is the first one of its label."""
    gap_ns: int = 0
    dispatches: list[DispatchRecord] = field(default_factory=list)
    barriers: list[BarrierRecord] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)
    """Times, and the bytes that the device had allocated then."""

    @property
    def gpu_ns(self) -> int:
        return max(0, self.end_ns - self.start_ns)

    @property
    def encode_ns(self) -> int:
        """From opening to commit."""
        return self.ended_ns - self.opened_ns

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> CommandBufferRecord:
        """Rebuilds what `as_dict` returned, also after a round trip through JSON."""
        record = from_fields(cls, given)
        record.dispatches = [from_fields(DispatchRecord, each) for each in given["dispatches"]]
        for dispatch in record.dispatches:
            dispatch.region = tuple(dispatch.region)
        record.barriers = [from_fields(BarrierRecord, each) for each in given["barriers"]]
        record.memory = [(int(when), int(nbytes)) for when, nbytes in given["memory"]]
        return record


@dataclass(slots=True)
class SpanRecord:
    """A span on a track of its own, such as a collective."""

    track: str
    name: str
    start_ns: int
    end_ns: int
    args: dict[str, Any] = field(default_factory=dict)


def from_fields(kind: type[T], given: Mapping[str, Any]) -> T:
    """A record from a mapping; unknown keys are ignored."""
    known = {each.name for each in fields(kind)}
    return kind(**{name: value for name, value in given.items() if name in known})
