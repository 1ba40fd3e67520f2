"""Residency sets: allocations that stay accessible to the device without being declared in each pass."""

from __future__ import annotations

from collections.abc import Sequence

from ..execution.residency import ResidencyState
from ..values import counted, instance, natural, optional_text
from .base import Descriptor, attribute
from .buffer import Resource
from .foundation import NSArray
from .owned import DeviceObject, Owned


class MTLResidencySetDescriptor(Descriptor):
    """A label and an initial capacity."""

    label, setLabel_ = attribute("label", optional_text, None)
    initialCapacity, setInitialCapacity_ = attribute("initialCapacity", natural, 0)


class MTLResidencySet(Owned):
    """Members take effect once committed; the set retains them, as in Metal."""

    def __init__(self, device: DeviceObject, descriptor: MTLResidencySetDescriptor) -> None:
        super().__init__(device)
        self.state = ResidencyState()
        self._label = descriptor.label()

    def label(self) -> str | None:
        return self._label

    def addAllocation_(self, allocation: Resource) -> None:
        self.state.members[instance(allocation, Resource, "allocation")] = None

    def addAllocations_count_(self, allocations: Sequence[Resource], count: int) -> None:
        for allocation in counted(allocations, count, "allocations"):
            self.addAllocation_(allocation)

    def removeAllocation_(self, allocation: Resource) -> None:
        self.state.members.pop(instance(allocation, Resource, "allocation"), None)

    def removeAllocations_count_(self, allocations: Sequence[Resource], count: int) -> None:
        for allocation in counted(allocations, count, "allocations"):
            self.removeAllocation_(allocation)

    def removeAllAllocations(self) -> None:
        self.state.members.clear()

    def containsAllocation_(self, allocation: Resource) -> bool:
        return allocation in self.state.members

    def allAllocations(self) -> NSArray[Resource]:
        return NSArray(self.state.members)

    def allocationCount(self) -> int:
        return len(self.state.members)

    def allocatedSize(self) -> int:
        """Of the committed members."""
        return sum(member.allocatedSize() for member in self.state.committed)

    def commit(self) -> None:
        """Lets additions and removals take effect."""
        self.state.commit()

    def requestResidency(self) -> None:
        """Nothing to do: memory of the CPU is always there."""

    def endResidency(self) -> None:
        """See requestResidency."""
