"""Resources: buffers with their own pages, over the caller's memory, or inside a heap."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any
from weakref import finalize, ref

from .. import constants as c
from .. import memory
from ..misuse import InvalidValue, MetalMisuse
from ..process import refuse_after_fork
from ..values import natural, within
from .base import Labelled
from .owned import DeviceObject, Owned

STORAGE_MASK = 0xF0
HAZARD_MASK = 0x300
KNOWN_OPTIONS = 1 | STORAGE_MASK | HAZARD_MASK


def resource_options(value: Any) -> int:
    """Checked MTLResourceOptions."""
    options = natural(value, "options")
    if options & ~KNOWN_OPTIONS or (options & STORAGE_MASK) >> 4 > c.MTLStorageModePrivate:
        raise InvalidValue(f"options {options:#x} are not resource options of a buffer")
    return options


class varlist:
    """PyObjC's type for memory of unknown length; it holds an address and no reference."""

    __slots__ = ("_address", "_length")

    def __init__(self, address: int, length: int) -> None:
        self._address = address
        self._length = length

    def as_buffer(self, length: int) -> memoryview:
        """Writable bytes that keep nothing alive."""
        count = natural(length, "length")
        if count > self._length:
            raise InvalidValue(f"as_buffer({count}) reaches beyond the buffer's {self._length} bytes")
        return memory.view(self._address, count)


class Resource(Owned, Labelled):
    """An allocation with storage and hazard modes."""

    _heap: Any = None

    def __init__(self, device: DeviceObject, allocation: memory.DeviceMemory, options: int) -> None:
        super().__init__(device)
        self.allocation = allocation
        self._options = options
        self._purgeable = c.MTLPurgeableStateNonVolatile

    def storageMode(self) -> int:
        return (self._options & STORAGE_MASK) >> 4

    def cpuCacheMode(self) -> int:
        return self._options & 1

    def resourceOptions(self) -> int:
        return self._options

    def hazardTrackingMode(self) -> int:
        asked = (self._options & HAZARD_MASK) >> 8
        return asked or (c.MTLHazardTrackingModeUntracked if self._heap else c.MTLHazardTrackingModeTracked)

    def allocatedSize(self) -> int:
        return memory.pages(self.allocation.length)

    def setLabel_(self, label: str | None) -> None:
        super().setLabel_(label)
        self.allocation.label = self._label

    def setPurgeableState_(self, state: int) -> int:
        """Sets the state and returns the one before; Empty drops the contents."""
        wanted = natural(state, "state")
        if not c.MTLPurgeableStateKeepCurrent <= wanted <= c.MTLPurgeableStateEmpty:
            raise InvalidValue(f"state {wanted} is not a purgeable state")
        before = self._purgeable
        if wanted != c.MTLPurgeableStateKeepCurrent:
            self._purgeable = wanted
        if wanted == c.MTLPurgeableStateEmpty and self._heap is None:
            refuse_after_fork()
            self._device.state.arena.discard(self.allocation)
            if self._device.state.options.checked:
                self.allocation.forget()
        return before

    def heap(self) -> Any:
        return self._heap

    def isAliasable(self) -> bool:
        return False


class MTLBuffer(Resource):
    """Memory shared by kernels and the CPU; `gpuAddress` is its address in this process."""

    def __init__(
        self,
        device: DeviceObject,
        allocation: memory.DeviceMemory,
        options: int,
        *,
        heap: Any = None,
        backing: memoryview | None = None,
    ) -> None:
        super().__init__(device, allocation, options)
        if heap is None:
            device.state.hand_over(allocation, self)
        else:
            allocation.owner = ref(self)
        self._heap = heap
        if heap is not None or options & HAZARD_MASK:
            allocation.untracked = self.hazardTrackingMode() == c.MTLHazardTrackingModeUntracked
        self._backing = backing

    def contents(self) -> varlist:
        if self.storageMode() == c.MTLStorageModePrivate:
            raise MetalMisuse(f"contents of {self!r}: the CPU cannot see a buffer of private storage; copy it by blit")
        return varlist(self.allocation.address, self.allocation.length)

    def length(self) -> int:
        return self.allocation.length

    def gpuAddress(self) -> int:
        self.allocation.addressed = True
        if self._heap is not None:
            self._heap.allocation.addressed = True
        return self.allocation.address

    def newTextureWithDescriptor_offset_bytesPerRow_(self, descriptor: Any, offset: int, row: int) -> Any:
        """A texture over these bytes, which stay the buffer's as well."""
        from .texture import texture_of_buffer  # it is a resource itself

        return texture_of_buffer(self, descriptor, offset, row)

    def allocatedSize(self) -> int:
        return self._heap_size if self._heap else memory.pages(self.allocation.length)

    @property
    def _heap_size(self) -> int:
        return -(-self.allocation.length // 256) * 256

    def heapOffset(self) -> int:
        return self.allocation.address - self._heap.allocation.address if self._heap else 0

    def didModifyRange_(self, span: tuple[int, int]) -> None:
        within(span, self.allocation.length, "range")
        if self.storageMode() != c.MTLStorageModeManaged:
            raise MetalMisuse(f"didModifyRange_ on {self!r}: only buffers of managed storage need it")


def over_caller_memory(
    device: DeviceObject, data: Any, length: int, options: int, deallocator: Callable[[int, int], object] | None
) -> MTLBuffer:
    """A buffer that aliases page-aligned memory of the caller, which stays exported while the buffer lives."""
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"bytes is a {type(data).__name__}, expected writable memory such as an mmap") from None
    if view.readonly or not view.c_contiguous:
        raise InvalidValue("memory of the caller must be writable and C-contiguous")
    if view.nbytes < length:
        raise InvalidValue(f"memory of the caller has {view.nbytes} bytes, fewer than the {length} asked for")
    address = ctypes.addressof(ctypes.c_char.from_buffer(view))
    if address % memory.PAGE or length % memory.PAGE or not length:
        raise InvalidValue(
            f"memory of the caller at {address:#x}, {length} bytes: both must be whole pages "
            f"of {memory.PAGE} bytes (allocate it with mmap.mmap)"
        )
    allocation = device.state.arena.over(address, length)
    device.state.charge_caller(allocation, length)
    buffer = MTLBuffer(device, allocation, options, backing=view)
    if deallocator is not None:
        finalize(buffer, deallocator, address, length).atexit = False
    return buffer
