"""Residency sets: allocations that stay reachable for the device without being named at each pass."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..memory import Allocation
from .base import Descriptor, NSObject, attribute
from .buffer import Resource
from .foundation import NSArray
from .values import counted, instance, natural, optional_text

if TYPE_CHECKING:
    from .device import MTLDevice


class MTLResidencySetDescriptor(Descriptor):
    """A name and a guess of the size."""

    label, setLabel_ = attribute("label", optional_text, None)
    initialCapacity, setInitialCapacity_ = attribute("initialCapacity", natural, 0)


class MTLResidencySet(NSObject):
    """Members that count once committed; the set holds on to them, as Metal's does."""

    def __init__(self, device: MTLDevice, descriptor: MTLResidencySetDescriptor) -> None:
        self._device = device
        self._label = descriptor.label()
        self._lock = threading.RLock()
        self._members: dict[Resource, None] = {}
        self._committed: dict[Resource, None] = {}
        self._requested = False

    def device(self) -> MTLDevice:
        return self._device

    def label(self) -> str | None:
        return self._label

    def addAllocation_(self, allocation: Resource) -> None:
        member = instance(allocation, Resource, "allocation")
        with self._lock:
            self._members[member] = None

    def addAllocations_count_(self, allocations: Sequence[Resource], count: int) -> None:
        for allocation in counted(allocations, count, "allocations"):
            self.addAllocation_(allocation)

    def removeAllocation_(self, allocation: Resource) -> None:
        member = instance(allocation, Resource, "allocation")
        with self._lock:
            self._members.pop(member, None)

    def removeAllocations_count_(self, allocations: Sequence[Resource], count: int) -> None:
        for allocation in counted(allocations, count, "allocations"):
            self.removeAllocation_(allocation)

    def removeAllAllocations(self) -> None:
        with self._lock:
            self._members.clear()

    def containsAllocation_(self, allocation: Resource) -> bool:
        return allocation in self._members

    def allAllocations(self) -> NSArray[Resource]:
        with self._lock:
            return NSArray(self._members)

    def allocationCount(self) -> int:
        return len(self._members)

    def allocatedSize(self) -> int:
        """Of the committed members."""
        with self._lock:
            return sum(member.allocatedSize() for member in self._committed)

    def commit(self) -> None:
        """Lets additions and removals take effect."""
        with self._lock:
            self._committed = dict(self._members)

    def requestResidency(self) -> None:
        self._requested = True

    def endResidency(self) -> None:
        self._requested = False

    def _resident(self) -> frozenset[Allocation]:
        with self._lock:
            return frozenset(member._allocation for member in self._committed)
