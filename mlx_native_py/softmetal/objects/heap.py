"""Heaps: one allocation for several buffers, placed automatically or at the caller's offsets."""

from __future__ import annotations

import threading
from typing import Any
from weakref import ref

from .. import constants as c
from .. import memory
from ..misuse import InvalidValue, MetalMisuse
from ..values import MTLSizeAndAlign, natural
from .base import Descriptor, attribute
from .buffer import HAZARD_MASK, STORAGE_MASK, MTLBuffer, Resource, resource_options
from .owned import DeviceObject

ALIGNMENT = 256


def size_and_align(length: Any, options: Any) -> MTLSizeAndAlign:
    """What a buffer of `length` bytes takes inside a heap."""
    resource_options(options)
    return MTLSizeAndAlign(-(-natural(length, "length") // ALIGNMENT) * ALIGNMENT, ALIGNMENT)


class MTLHeapDescriptor(Descriptor):
    """The size and type of a heap."""

    size, setSize_ = attribute("size", natural, 0)
    storageMode, setStorageMode_ = attribute("storageMode", natural, c.MTLStorageModePrivate)
    cpuCacheMode, setCpuCacheMode_ = attribute("cpuCacheMode", natural, 0)
    hazardTrackingMode, setHazardTrackingMode_ = attribute("hazardTrackingMode", natural, 0)
    type, setType_ = attribute("type", natural, c.MTLHeapTypeAutomatic)

    def setResourceOptions_(self, options: int) -> None:
        value = resource_options(options)
        self.setStorageMode_((value & STORAGE_MASK) >> 4)
        self.setHazardTrackingMode_((value & HAZARD_MASK) >> 8)
        self.setCpuCacheMode_(value & 1)

    def resourceOptions(self) -> int:
        return self.storageMode() << 4 | self.hazardTrackingMode() << 8 | self.cpuCacheMode()


class MTLHeap(Resource):
    """Memory that buffers are allocated from; they keep it alive."""

    def __init__(self, device: DeviceObject, descriptor: MTLHeapDescriptor, allocation: memory.DeviceMemory) -> None:
        super().__init__(device, allocation, descriptor.resourceOptions())
        self._type = descriptor.type()
        allocation.untracked = self.hazardTrackingMode() == c.MTLHazardTrackingModeUntracked
        device.state.hand_over(allocation, self)
        self._lock = threading.Lock()
        self._used: dict[ref[MTLBuffer], tuple[int, int]] = {}  # place and length of buffers that live

    def size(self) -> int:
        return self.allocation.length

    def type(self) -> int:
        return self._type

    def hazardTrackingMode(self) -> int:
        return (self._options & HAZARD_MASK) >> 8 or c.MTLHazardTrackingModeUntracked

    def currentAllocatedSize(self) -> int:
        return self.allocatedSize()

    def usedSize(self) -> int:
        return sum(length for _, length in list(self._used.values()))

    def maxAvailableSizeWithAlignment_(self, alignment: int) -> int:
        step = natural(alignment, "alignment")
        if step & (step - 1) or not step:
            raise InvalidValue(f"alignment {step} is not a power of two")
        with self._lock:
            return max((end - -(-start // step) * step for start, end in self._gaps()), default=0)

    def newBufferWithLength_options_(self, length: int, options: int) -> MTLBuffer | None:
        """A buffer at a place of the heap's choice, or None when no gap is large enough."""
        wanted, _ = size_and_align(length, options)
        if self._type != c.MTLHeapTypeAutomatic:
            raise MetalMisuse(f"{self!r} is a placement heap: say the offset")
        self._check(length, options)
        with self._lock:
            place = next((start for start, end in self._gaps() if end - start >= wanted), None)
            buffer = None if place is None else self._cut(place, wanted, length, options)
        if buffer is not None and self._device.state.options.checked:
            buffer.allocation.forget()
        return buffer

    def newBufferWithLength_options_offset_(self, length: int, options: int, offset: int) -> MTLBuffer | None:
        """A buffer at the caller's offset; buffers may overlap."""
        wanted, _ = size_and_align(length, options)
        if self._type != c.MTLHeapTypePlacement:
            raise MetalMisuse(f"{self!r} is not a placement heap: it chooses the offset itself")
        self._check(length, options)
        place = natural(offset, "offset")
        if place % ALIGNMENT or place + wanted > self.size():
            raise InvalidValue(
                f"offset {place} for {wanted} bytes: expected a multiple of {ALIGNMENT} "
                f"inside the heap's {self.size()} bytes"
            )
        with self._lock:
            return self._cut(place, wanted, length, options)

    def _check(self, length: int, options: int) -> None:
        if not length:
            raise InvalidValue("a buffer in a heap needs at least one byte")
        if (options & STORAGE_MASK) >> 4 != self.storageMode():
            raise InvalidValue(f"options {options:#x}: storage mode differs from the heap's {self.storageMode()}")

    def _cut(self, place: int, wanted: int, length: int, options: int) -> MTLBuffer:
        part = memory.DeviceMemory(self.allocation.address + place, length)
        buffer = MTLBuffer(self._device, part, options, heap=self)
        self._used[ref(buffer, self._used.pop)] = place, wanted
        return buffer

    def _gaps(self) -> list[tuple[int, int]]:
        edges, start = [], 0
        for place, length in sorted(self._used.values()):
            if place > start:
                edges.append((start, place))
            start = max(start, place + length)
        return [*edges, (start, self.size())] if start < self.size() else edges
