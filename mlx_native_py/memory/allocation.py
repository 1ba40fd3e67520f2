"""Device memory allocations: address, lifetime, and pending use by the GPU."""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections.abc import Sequence
from threading import get_ident
from typing import Any, ClassVar, Protocol

import numpy as np

from ..errors import BufferAllocationError, EncoderStateError, InvalidArgument
from ..forks import Lock
from ..hazards.ranges import Memory
from ..hazards.tracker import UNUSED, MemoryUse
from ..metal import Backend
from . import transfers
from .residency import Residency

__all__ = [
    "Allocation",
    "Completion",
    "InFlight",
    "address_of",
    "adopt",
    "allocate",
    "allocation_behind",
    "needs_copy",
    "over_pages",
]

Array = np.ndarray[Any, np.dtype[Any]]
PAGE = mmap.PAGESIZE


class InFlight(Protocol):
    """A command buffer or transfer that has not completed."""

    def wait(self) -> object: ...


class Completion(Protocol):
    """Attached to an allocation by its users; tells whether they are done with the memory."""

    def done(self) -> bool: ...

    def in_flight(self) -> Sequence[InFlight]: ...


class _All:
    """Done when all of several completions are."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Completion, ...]) -> None:
        self.parts = parts

    def done(self) -> bool:
        return all(part.done() for part in self.parts)

    def in_flight(self) -> list[InFlight]:
        return [each for part in self.parts for each in part.in_flight()]


class _Export:
    """The base object of numpy arrays over an allocation; keeps the memory alive."""

    __slots__ = ("allocation", "__array_interface__", "__weakref__")

    def __init__(self, allocation: Allocation) -> None:
        self.allocation = allocation
        self.__array_interface__ = {
            "shape": (allocation.nbytes,),
            "typestr": "|u1",
            "data": (allocation.address, allocation.readonly),
            "version": 3,
        }


def _both(earlier: Completion, completion: Completion) -> Completion:
    """Not done before both are."""
    parts = earlier.parts if isinstance(earlier, _All) else (earlier,)
    waiting = tuple(part for part in parts if part is not completion and not part.done())
    return _All((*waiting, completion)) if waiting else completion


# Reentrant, because a finaliser that releases a buffer may run anywhere inside.
_changing = Lock()


class Allocation:
    """The memory of one MTLBuffer; buffers, views and arrays over it keep it alive."""

    releases: ClassVar[int] = 0
    """How many allocations have been released, so that plans look for released ones only after a change."""

    __slots__ = (
        "mtl",
        "address",
        "nbytes",
        "memory",
        "readonly",
        "residency",
        "owner",
        "pending",
        "released",
        "textures",
        "use",
        "_export",
        "__weakref__",
    )

    def __init__(
        self,
        mtl: Any,
        address: int,
        nbytes: int,
        residency: Residency,
        *,
        memory: Memory | None = None,
        readonly: bool = False,
        owner: object = None,
    ) -> None:
        self.residency = residency
        self.mtl = mtl
        self.address = address
        """The CPU address of the first byte; 0 if the CPU cannot access it."""
        self.nbytes = nbytes
        self.memory = Memory(address, nbytes, known=address != 0) if memory is None else memory
        self.readonly = readonly
        """Whether neither the CPU nor kernels may write to it."""
        self.owner = owner
        self.pending: Completion | None = None
        """Not done while the GPU may still use the memory."""
        self.released = False
        """Whether it was returned to its pool; no buffer over it may be used then."""
        self.textures: dict[Any, Any] = {}
        """MTLTextures over the memory, which live as long as it does."""
        self.use: MemoryUse = UNUSED
        """The `MemoryUse` of the encoder that used it last and has checked it."""
        self._export: weakref.ref[_Export] | None = None

    def __repr__(self) -> str:
        return f"<Allocation of {self.nbytes} bytes{', busy' * self.is_busy()}{', released' * self.released}>"

    def hold(self, completion: Completion) -> None:
        """Marks the memory as in use until `completion` is done, in addition to earlier completions."""
        # Completions are queried outside the lock, because they take their queue's lock.
        while True:
            earlier = self.pending
            if earlier is completion:
                return
            held = completion if earlier is None or earlier.done() else _both(earlier, completion)
            with _changing:
                if self.released:
                    self.require_live()
                if self.pending is earlier:
                    self.pending = held
                    return

    def is_busy(self) -> bool:
        """Whether the GPU may still use the memory."""
        earlier = self.pending
        done = earlier is not None and earlier.done()
        with _changing:
            if done and self.pending is earlier:
                self.pending = None
            return self.pending is not None

    def writer(self, start: int, end: int) -> InFlight | None:
        """The command buffer in flight that writes any of these bytes (addresses), if there is one."""
        if self.pending is None and not self.memory.aliases:
            return None
        queue = self.residency.writers()
        return None if queue is None else queue.writer(self, start, end)

    def wait(self) -> None:
        """Waits until no submitted command buffer uses the memory; raises if an uncommitted one does."""
        if get_ident() != transfers.thread:
            for each in self.in_flight():
                each.wait()

    def in_flight(self) -> Sequence[InFlight]:
        """The pending users of the memory."""
        pending = self.pending
        return () if pending is None else pending.in_flight()

    def is_exported(self) -> bool:
        """Whether a numpy array over the memory is alive."""
        return self._export is not None and self._export() is not None

    @property
    def root(self) -> Allocation:
        """The pool block that this was leased from, or itself."""
        # Through the type, because module globals may be gone at interpreter exit.
        return self.owner if isinstance(self.owner, type(self)) else self

    def __reduce__(self) -> Any:
        raise InvalidArgument(
            "buffers are neither pickled nor copied by `copy`: pickle buffer.numpy(), or copy by "
            "device.buffer(buffer, copy=True)"
        )

    def set_label(self, label: str) -> None:
        """Sets the label shown in GPU traces and barrier explanations."""
        if not isinstance(label, str):
            raise InvalidArgument(f"label is {label!r}, expected a str")
        self.memory.label = label
        # A Python string becomes an autoreleased object with each message.
        with self.residency.backend.autorelease_pool():
            self.mtl.setLabel_(label)

    def release(self) -> None:
        """Invalidates all buffers over it; existing numpy arrays stay valid."""
        with _changing:
            self.released = True
            self.use = UNUSED
            Allocation.releases += 1

    def require_live(self) -> None:
        """Raises if it was returned to its pool."""
        if self.released:
            raise EncoderStateError("this buffer was returned to its pool by release() or reset(); allocate another")

    def bytes(self) -> Array:
        """All bytes as an array, without a copy; the array keeps the memory alive."""
        if not self.address:
            raise InvalidArgument(
                "the CPU cannot access a buffer with private storage; copy it to a shared buffer with a kernel"
            )
        if transfers.under_way:
            transfers.wait_for((self,))
        with _changing:
            self.require_live()
            export = None if self._export is None else self._export()
            if export is None:
                export = _Export(self)
                self._export = weakref.ref(export)
        return np.asarray(export)


def _allocated(mtl: Any, nbytes: int, device: Any) -> Any:
    if mtl is None:
        used, advised = int(device.currentAllocatedSize()), int(device.recommendedMaxWorkingSetSize())
        raise BufferAllocationError(
            nbytes, f"the device is out of memory: {used} bytes are in use, and {advised} are recommended"
        )
    return mtl


def _within(nbytes: int, limit: int) -> None:
    if nbytes > limit:
        raise BufferAllocationError(nbytes, f"the device allows at most {limit} bytes per buffer")


def _address(mtl: Any, nbytes: int) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mtl.contents().as_buffer(nbytes)))


def allocate(backend: Backend, device: Any, nbytes: int, limit: int, residency: Residency) -> Allocation:
    """New shared memory with undefined contents, staged for residency."""
    _within(nbytes, limit)
    mode = backend.Metal.MTLResourceStorageModeShared
    mtl = device.newBufferWithLength_options_(nbytes, mode)
    if mtl is None and residency.flush():
        # Pending removals kept memory allocated; now it is free.
        mtl = device.newBufferWithLength_options_(nbytes, mode)
    buffer = _allocated(mtl, nbytes, device)
    if backend.forget is not None:
        backend.forget(buffer)
    address = _address(buffer, nbytes)
    allocation = Allocation(buffer, address, nbytes, residency, memory=Memory(address, nbytes, fresh=True))
    residency.add(allocation)
    return allocation


def adopt(backend: Backend, mtl: Any, residency: Residency) -> Allocation:
    """An allocation over an existing MTLBuffer, which its owner keeps resident."""
    nbytes = int(mtl.length())
    private = mtl.storageMode() == backend.Metal.MTLStorageModePrivate
    return Allocation(mtl, 0 if private else _address(mtl, nbytes), nbytes, residency)


def _origin(array: Array) -> Any:
    """The object that owns an array's memory."""
    origin: Any = array
    while isinstance(origin, (np.ndarray, memoryview)):
        origin = origin.base if isinstance(origin, np.ndarray) else origin.obj
    return origin


def allocation_behind(array: Array) -> Allocation | None:
    """The allocation that an array is a view of, if any."""
    origin = _origin(array)
    return origin.allocation if isinstance(origin, _Export) else None


def address_of(array: Array) -> int:
    """The address of an array's first element; uses the buffer protocol if possible, which is faster."""
    try:
        exporter: Any = array  # the stubs do not say that it is a buffer
        return ctypes.addressof(ctypes.c_char.from_buffer(exporter))
    except (TypeError, ValueError, BufferError):  # read-only, not contiguous, or of a type that Python does not know
        address: int = array.__array_interface__["data"][0]
        return address


def needs_copy(array: Array, address: int) -> bool:
    """Whether `over_pages` would refuse the array, because it does not fill whole pages."""
    if not array.flags.c_contiguous:
        return True
    if not (address % PAGE or array.nbytes % PAGE):
        return False
    return not isinstance(_origin(array), (_Export, mmap.mmap))


def _pages(array: Array) -> tuple[int, int]:
    """The page range around a contiguous array, if all of it belongs to the array or its mmap."""
    start = address_of(array)
    end = start + array.nbytes
    low, high = start // PAGE * PAGE, -(-end // PAGE) * PAGE
    origin = _origin(array)
    if (low, high) == (start, end):
        return low, high
    if isinstance(origin, mmap.mmap):
        first = address_of(np.frombuffer(origin, np.uint8))
        if first <= low and high <= first + -(-len(origin) // PAGE) * PAGE:
            return low, high
    where = f"starts {start - low} bytes after a page boundary" if start > low else "starts on a page boundary"
    raise InvalidArgument(
        f"cannot use this memory without a copy: it {where} and ends {high - end} bytes before one "
        f"(pages of {PAGE} bytes), and the rest of those pages is not known to belong to it. "
        "Put the data into an mmap.mmap, or pass copy=True"
    )


def over_pages(backend: Backend, device: Any, array: Array, limit: int, residency: Residency) -> tuple[Allocation, int]:
    """An allocation over the memory of a contiguous array, and the array's offset in it; keeps the array alive."""
    low, high = _pages(array)
    _within(high - low, limit)
    pages = (ctypes.c_char * (high - low)).from_address(low)
    mode = backend.Metal.MTLResourceStorageModeShared
    try:
        mtl = device.newBufferWithBytesNoCopy_length_options_deallocator_(pages, high - low, mode, None)
    except ValueError as refused:
        raise InvalidArgument(f"cannot use this memory without a copy: {refused}") from None
    _allocated(mtl, high - low, device)
    allocation = Allocation(mtl, low, high - low, residency, readonly=not array.flags.writeable, owner=array)
    residency.add(allocation)
    return allocation, address_of(array) - low
