"""Command queues: hand out command buffers, at most so many at once, and run them in order."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..misuse import InvalidValue
from .base import Descriptor, Labelled, attribute, without
from .command_buffer import MTLCommandBuffer
from .process import refuse_after_fork
from .residency import MTLResidencySet
from .values import counted, instance, natural, truth
from .worker import Worker

if TYPE_CHECKING:
    from .device import MTLDevice

DEFAULT_SLOTS = 64
MOST_RESIDENCY_SETS = 32
_numbers = itertools.count(1)


class MTLCommandBufferDescriptor(Descriptor):
    """How a command buffer holds its resources and reports errors."""

    retainedReferences, setRetainedReferences_ = attribute("retainedReferences", truth, True)
    errorOptions, setErrorOptions_ = attribute("errorOptions", natural, 0)


class MTLCommandQueue(Labelled):
    """Runs command buffers one after the other, beside other queues."""

    def __init__(self, device: MTLDevice, slots: int) -> None:
        if not slots:
            raise InvalidValue("a queue needs room for at least one command buffer")
        self._device = device
        self._worker = Worker(slots, device._options.queue_patience_seconds, f"soft-metal-queue-{next(_numbers)}")
        self._serials = itertools.count(1)
        self._residency: dict[MTLResidencySet, None] = {}
        self._buffer_class = without(MTLCommandBuffer, device._profile.absent)

    def device(self) -> MTLDevice:
        return self._device

    def commandBuffer(self) -> MTLCommandBuffer:
        return self._new(retained=True, error_options=0)

    def commandBufferWithUnretainedReferences(self) -> MTLCommandBuffer:
        return self._new(retained=False, error_options=0)

    def commandBufferWithDescriptor_(self, descriptor: MTLCommandBufferDescriptor) -> MTLCommandBuffer:
        asked = instance(descriptor, MTLCommandBufferDescriptor, "descriptor")
        return self._new(retained=asked.retainedReferences(), error_options=asked.errorOptions())

    def addResidencySet_(self, residency: MTLResidencySet) -> None:
        member = instance(residency, MTLResidencySet, "residencySet")
        if member not in self._residency and len(self._residency) >= MOST_RESIDENCY_SETS:
            raise InvalidValue(f"a queue takes {MOST_RESIDENCY_SETS} residency sets")
        self._residency[member] = None

    def addResidencySets_count_(self, residency: Sequence[MTLResidencySet], count: int) -> None:
        for member in counted(residency, count, "residencySets"):
            self.addResidencySet_(member)

    def removeResidencySet_(self, residency: MTLResidencySet) -> None:
        self._residency.pop(instance(residency, MTLResidencySet, "residencySet"), None)

    def removeResidencySets_count_(self, residency: Sequence[MTLResidencySet], count: int) -> None:
        for member in counted(residency, count, "residencySets"):
            self.removeResidencySet_(member)

    def _new(self, *, retained: bool, error_options: int) -> MTLCommandBuffer:
        refuse_after_fork()
        self._worker.take_slot()
        return self._buffer_class(self, retained=retained, error_options=error_options)

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing() and "_worker" in self.__dict__:
            self._worker.close()
