"""Byte ranges of buffers, conflicts between them, and hazards."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol
from weakref import ReferenceType, ref

from ..forks import Lock

__all__ = ["BufferRange", "HasSpan", "Hazard", "HazardKind", "MemRangeRole", "Memory", "Span", "shared_bytes"]


class Memory:
    """A range of addresses that the hazard tracker uses as a key; views of one allocation share it.

    `known=False` means that the CPU does not know the address; such memory has no aliases. `fresh=True` means that it
    was just allocated, so that nothing can overlap it yet.
    """

    __slots__ = ("address", "nbytes", "label", "aliases", "__weakref__")

    any_aliases: ClassVar[bool] = False
    """Whether two overlapping memories have ever existed, which is rare."""

    def __init__(self, address: int, nbytes: int, label: str = "", *, known: bool = True, fresh: bool = False) -> None:
        self.address = address
        self.nbytes = nbytes
        self.label = label
        self.aliases: tuple[ReferenceType[Memory], ...] = ()
        """Other live memories that share bytes with this one."""
        if known:
            with _lock:
                # A list of them, not a tuple: until it is made no garbage is collected, which would change the set.
                for other in () if fresh else filter(None, [each() for each in list(_live)]):
                    if address < other.address + other.nbytes and other.address < address + nbytes:
                        self._meet(other)
                        other._meet(self)
                _live.add(ref(self, _live.discard))

    def _meet(self, other: Memory) -> None:
        Memory.any_aliases = True
        self.aliases = (*(alias for alias in self.aliases if alias() is not None), ref(other))

    def __repr__(self) -> str:
        return f"{self.label or 'memory'} ({self.nbytes} bytes at {self.address:#x})"


_lock = Lock()
_live: set[ref[Memory]] = set()

Span = tuple[Memory, int, int]
"""A memory, and the addresses of its first byte and of the byte after the last."""


class MemRangeRole(Enum):
    """Whether a dispatch reads or writes a range."""

    Src = "read"
    Dst = "write"


class HasSpan(Protocol):
    """A buffer, a view or a `BufferRange`."""

    @property
    def span(self) -> Span: ...


@dataclass(frozen=True, slots=True)
class BufferRange:
    """The bytes from `start` up to `end` (addresses) of a memory, read or written.

    >>> memory = Memory(4096, 64)
    >>> low = BufferRange(memory, 4096, 4128, MemRangeRole.Dst)
    >>> high = BufferRange(memory, 4128, 4160, MemRangeRole.Src)
    >>> low.conflicts_with(high), low.conflicts_with(BufferRange(memory, 4127, 4160, MemRangeRole.Src))
    (False, True)
    """

    allocation: Memory
    start: int
    end: int
    role: MemRangeRole

    @classmethod
    def from_buffer(cls, buffer: HasSpan, role: MemRangeRole) -> BufferRange:
        """The exact bytes of a buffer or view."""
        return cls(*buffer.span, role)

    @property
    def span(self) -> Span:
        return self.allocation, self.start, self.end

    def conflicts_with(self, other: BufferRange) -> bool:
        """Whether both share bytes and at least one writes; symmetric."""
        writes = self.role is MemRangeRole.Dst or other.role is MemRangeRole.Dst
        return writes and shared_bytes(self.span, other.span) is not None


def shared_bytes(one: Span, two: Span) -> tuple[int, int] | None:
    """The bytes that two spans share; None if there are none."""
    start, end = max(one[1], two[1]), min(one[2], two[2])
    if start >= end or not (one[0] is two[0] or any(alias() is two[0] for alias in one[0].aliases)):
        return None
    return start, end


class HazardKind(Enum):
    """The kind of data hazard."""

    RAW = "read after write"
    WAR = "write after read"
    WAW = "write after write"


@dataclass(frozen=True, slots=True)
class Hazard:
    """Two dispatches that must not overlap, and the first shared bytes that were found.

    >>> hazard = Hazard(HazardKind.WAR, "sum", "fill", 4100, 4160, Memory(4096, 64, "x", known=False))
    >>> hazard.offset, hazard.nbytes
    (4, 60)
    >>> print(hazard)
    WAR: fill writes bytes 4..64 of x (64 bytes at 0x1000), which sum reads
    """

    kind: HazardKind
    earlier: Any
    later: Any
    start: int
    end: int
    allocation: Memory

    @property
    def offset(self) -> int:
        """Byte offset in the allocation."""
        return self.start - self.allocation.address

    @property
    def nbytes(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        first, _, second = self.kind.value.replace("read", "reads").replace("write", "writes").split()
        return (
            f"{self.kind.name}: {self.later} {first} bytes {self.offset}..{self.offset + self.nbytes} "
            f"of {self.allocation}, which {self.earlier} {second}"
        )
