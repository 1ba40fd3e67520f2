"""Command queues: create a limited number of command buffers, and run them in order."""

from __future__ import annotations

from collections.abc import Sequence

from ..execution.command_buffer import CommandBufferState
from ..execution.queue import QueueState
from ..misuse import InvalidValue
from ..process import refuse_after_fork
from ..signs import sign
from ..values import counted, instance, natural, truth
from .base import Descriptor, Labelled, attribute, without
from .command_buffer import MTLCommandBuffer
from .owned import DeviceObject, Owned
from .residency import MTLResidencySet

DEFAULT_SLOTS = 64
MOST_RESIDENCY_SETS = 32


class MTLCommandBufferDescriptor(Descriptor):
    """How a command buffer retains resources and reports errors."""

    retainedReferences, setRetainedReferences_ = attribute("retainedReferences", truth, True)
    errorOptions, setErrorOptions_ = attribute("errorOptions", natural, 0)


class MTLCommandQueue(Owned, Labelled):
    """Runs command buffers in order, concurrently with other queues."""

    def __init__(self, device: DeviceObject, slots: int) -> None:
        if not slots:
            raise InvalidValue("a queue needs room for at least one command buffer")
        super().__init__(device)
        self._sign = sign()
        self.state = QueueState(self._sign, device.state, slots)
        self._buffer_class = without(MTLCommandBuffer, device.state.profile.absent)

    def setLabel_(self, label: str | None) -> None:
        super().setLabel_(label)
        self.state.label = self._label

    def commandBuffer(self) -> MTLCommandBuffer:
        return self._new(True, 0)

    def commandBufferWithUnretainedReferences(self) -> MTLCommandBuffer:
        return self._new(False, 0)

    def commandBufferWithDescriptor_(self, descriptor: MTLCommandBufferDescriptor) -> MTLCommandBuffer:
        asked = instance(descriptor, MTLCommandBufferDescriptor, "descriptor")
        return self._new(retained=asked.retainedReferences(), error_options=asked.errorOptions())

    def addResidencySet_(self, residency: MTLResidencySet) -> None:
        member, known = instance(residency, MTLResidencySet, "residencySet").state, self.state.residency
        if member not in known and len(known) >= MOST_RESIDENCY_SETS:
            raise InvalidValue(f"a queue takes {MOST_RESIDENCY_SETS} residency sets")
        known[member] = None

    def addResidencySets_count_(self, residency: Sequence[MTLResidencySet], count: int) -> None:
        for member in counted(residency, count, "residencySets"):
            self.addResidencySet_(member)

    def removeResidencySet_(self, residency: MTLResidencySet) -> None:
        self.state.residency.pop(instance(residency, MTLResidencySet, "residencySet").state, None)

    def removeResidencySets_count_(self, residency: Sequence[MTLResidencySet], count: int) -> None:
        for member in counted(residency, count, "residencySets"):
            self.removeResidencySet_(member)

    def _new(self, retained: bool, error_options: int) -> MTLCommandBuffer:
        refuse_after_fork()
        queue = self.state
        work = CommandBufferState(queue.device, next(queue.serials), retained, error_options)
        queue.take_slot(work)
        return self._buffer_class(self, queue, work)
