"""The device context: backend objects, memory, kernels and the queue, as lower layers need them."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np

from .. import forks, settings
from ..dtypes import DType, narrowed
from ..errors import (
    AFTER_FORK,
    BufferAllocationError,
    DeviceNotFound,
    EncoderStateError,
    ForkedProcessError,
    InvalidArgument,
)
from ..forks import Lock
from ..memory.allocation import (
    Allocation,
    address_of,
    adopt,
    allocate,
    allocation_behind,
    needs_copy,
    over_pages,
)
from ..memory.buffer import Array, MlxBuffer, as_array, exactly
from ..memory.recycler import Recycler
from ..memory.residency import open_residency
from ..memory.shapes import as_shape, exact_layout
from ..memory.signature import Signature, signature_of
from ..metal import Backend
from ..pipelines.pipeline import BUFFER_SLOTS
from ..pipelines.registry import KernelRegistry
from .arguments import INLINE_LIMIT
from .parameters import Parameters
from .submissions import SLOTS, Submissions
from .timing import SAMPLE_LIMIT

__all__ = ["DeviceContext", "require_open"]

# Metal's fixed limits, which devices do not report.
_FIXED_LIMITS = {
    "max_buffer_bindings": BUFFER_SLOTS,
    "max_threadgroup_bindings": BUFFER_SLOTS,
    "max_inline_bytes": INLINE_LIMIT,
    "max_counter_samples": SAMPLE_LIMIT,
    "max_unfinished_command_buffers": SLOTS,
}
# Apple GPUs accept constant offsets at any multiple of 4; others need larger alignment.
_CLOSE, _FAR = 16, 256
_RAW = (bytes, bytearray, memoryview, mmap.mmap)


class DeviceContext:
    """An open Metal device with its queue, residency set, kernel registry and memory."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        with backend.autorelease_pool():
            self.mtl = backend.default_device()
            self.queue = self.mtl.newCommandQueue()
            if self.queue is None:
                raise DeviceNotFound(f"the {backend.kind} device could not create a command queue")
            self.capabilities = backend.capabilities(self.mtl)
            wanted = not settings.current().no_residency
            self.residency = open_residency(backend, self.mtl, self.queue, self.capabilities, wanted=wanted)
        self.residency.device = weakref.ref(self)
        self._pid, self._forks = os.getpid(), forks.count
        self._closed = False
        self._lock = Lock()
        self._kernels: KernelRegistry | None = None
        self.concurrent = (backend.Metal.MTLDispatchTypeConcurrent,)
        """The arguments for opening a concurrent pass."""
        self.barrier_scope = int(backend.Metal.MTLBarrierScopeBuffers)
        """What a memory barrier covers: buffers, and textures once one has been created."""
        self.recycler = Recycler(self.empty, backend.forget)
        """Reuses the memory of results from completed command buffers."""
        self.recorded_ops: dict[Any, Any] = {}
        """Functions generated for ops on this device, by call signature; owned by `ops.recorded`."""

    @property
    def name(self) -> str:
        """The device's own name."""
        return self.capabilities.name

    @property
    def residency_sets_enabled(self) -> bool:
        """Whether a residency set keeps the allocations resident."""
        return self.residency.enabled

    @property
    def allocated_bytes(self) -> int:
        """Bytes that the device has allocated now."""
        return int(self.mtl.currentAllocatedSize())

    def info(self) -> dict[str, Any]:
        """All properties and limits of the device by name."""
        return {
            "backend": self.backend.kind,
            **asdict(self.capabilities),
            **_FIXED_LIMITS,
            "page_size": mmap.PAGESIZE,
            "currently_allocated": self.allocated_bytes,
            "residency": self.residency.reason or f"{self.residency.count} allocations",
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.backend.kind}{', closed' * self._closed})"

    # Memory

    def alloc_buffer(self, byte_len: int, dtype: Any, shape: int | Sequence[int], *, label: str = "") -> MlxBuffer:
        """A zero-filled buffer of `byte_len` bytes, which must match `dtype` and `shape`."""
        nbytes, kind, axes = exact_layout(byte_len, dtype, shape)
        buffer = self.empty(axes, kind, label=label)
        # Metal recycles pages, so a new buffer may contain old data.
        ctypes.memset(buffer.allocation.address, 0, nbytes)
        return buffer

    def empty(self, shape: int | Sequence[int], dtype: Any = DType.F32, *, label: str = "") -> MlxBuffer:
        """A buffer with undefined contents."""
        (axes, count), kind = as_shape(shape), DType.of(dtype)
        nbytes = count * kind.size
        buffer = MlxBuffer(self.allocate(nbytes), kind, axes, 0, nbytes)
        if label:
            buffer.label = label
        return buffer

    def buffer(self, source: Any, dtype: Any = None, *, copy: bool | None = True, label: str = "") -> MlxBuffer:
        """A buffer with the elements of an array: from numpy, a list, DLPack, or raw memory.

        `copy=True` copies; `copy=False` shares the memory, and raises if it cannot; `copy=None` shares it if possible.
        `dtype` converts an array, and gives the element type of raw memory (bytes, an mmap). Numbers of Python that it
        cannot hold raise.

        >>> import mmap
        >>> pages = mmap.mmap(-1, 8192)
        >>> shared = device.buffer(pages, "u32", copy=False)
        >>> pages[0:4] = b"\\x07\\0\\0\\0"
        >>> shared.numpy()[0]
        np.uint32(7)
        """
        array = _elements(source, dtype)
        if copy is False and isinstance(source, np.ndarray) and source.dtype != array.dtype:
            raise InvalidArgument(f"cannot use {source.dtype} memory as {DType.of(array.dtype)} without a copy")
        buffer = self._over(array) if copy is False else None if copy else self._in_place(array)
        if buffer is None:
            buffer = self.empty(array.shape, array.dtype)
            buffer.numpy()[...] = array
        if label:
            buffer.label = label
        return buffer

    def staged(self, source: Any, copies: list[MlxBuffer]) -> MlxBuffer:
        """`buffer(source, copy=None)` for a single call, with copies in recycled memory that are appended to `copies`.

        `recycler.give_back(copies)` after the call makes that memory available to the next call.
        """
        signature = _usual.get((source.dtype, source.shape)) if type(source) is np.ndarray else None
        array: Array = source if signature is not None else _elements(source, None)
        address = address_of(array)
        buffer = None if needs_copy(array, address) else self._in_place(array)
        if buffer is None:
            self.require_open()
            if signature is None:
                signature = _remember(array)
            buffer = self.recycler.take(signature)
            copies.append(buffer)
            if array.flags.c_contiguous:
                ctypes.memmove(buffer.start, address, signature.nbytes)
            else:
                buffer.numpy(wait=False)[...] = array
        return buffer

    def wrap(self, mtl: Any, dtype: Any, shape: int | Sequence[int]) -> MlxBuffer:
        """A buffer over an existing MTLBuffer, which the caller keeps resident."""
        self.require_open()
        (axes, count), kind = as_shape(shape), DType.of(dtype)
        nbytes = count * kind.size
        if nbytes > int(mtl.length()):
            raise InvalidArgument(f"{kind}{list(axes)} takes {nbytes} bytes, and the MTLBuffer has {mtl.length()}")
        return MlxBuffer(adopt(self.backend, mtl, self.residency), kind, axes, 0, nbytes)

    def allocate(self, nbytes: int) -> Allocation:
        """Uninitialised device memory, for code that creates its own buffers over it."""
        self.require_open()
        limit = self.capabilities.max_buffer_length
        try:
            return allocate(self.backend, self.mtl, nbytes, limit, self.residency)
        except BufferAllocationError:
            if self.recycler.is_empty:
                raise
            self.recycler.clear()
            self.residency.flush()
            return allocate(self.backend, self.mtl, nbytes, limit, self.residency)

    def _in_place(self, array: Array) -> MlxBuffer | None:
        """A buffer over the array's own memory, or None if that is not possible."""
        try:
            return self._over(array)
        except InvalidArgument:
            return None

    def _over(self, array: Array) -> MlxBuffer:
        self.require_open()
        if not array.flags.c_contiguous:
            raise InvalidArgument(f"cannot use this memory without a copy: strides {array.strides} are not row-major")
        kind, behind = DType.of(array.dtype), allocation_behind(array)
        if behind is not None and behind.residency is self.residency:
            behind.require_live()
            return MlxBuffer(behind, kind, array.shape, address_of(array) - behind.address, array.nbytes)
        limit = self.capabilities.max_buffer_length
        allocation, offset = over_pages(self.backend, self.mtl, array, limit, self.residency)
        return MlxBuffer(allocation, kind, array.shape, offset, array.nbytes)

    # Commands

    @property
    def kernels(self) -> KernelRegistry:
        """The kernel registry of this device."""
        self.require_open()
        kernels = self._kernels
        if kernels is None:
            with self._lock:
                if self._kernels is None:
                    self._kernels = KernelRegistry(self)
                kernels = self._kernels
        return kernels

    @cached_property
    def submissions(self) -> Submissions:
        """The command buffers of this device's queue, from creation to completion."""
        with self._lock:  # another thread may have been faster
            known: Submissions | None = self.__dict__.get("submissions")
            if known is None:
                able = self.capabilities
                known = Submissions(self.backend, self.mtl, self.queue, able, self.residency, self.recycler)
                self.__dict__["submissions"] = known
            return known

    @property
    def constant_alignment(self) -> int:
        """The required offset alignment of buffers in the constant address space."""
        return _CLOSE if self.capabilities.apple_family else _FAR

    @cached_property
    def parameters(self) -> Parameters | None:
        """The arena for inline arguments; None if they are sent as bytes."""
        if not self.backend.parameter_arena:
            return None
        with self._lock:
            known: Parameters | None = self.__dict__.get("parameters")
            if known is None:
                known = self.__dict__["parameters"] = Parameters(self.empty, self.constant_alignment)
            return known

    # Lifetime

    @property
    def is_closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    def require_open(self) -> None:
        """Raises if the device is closed or was opened before a fork."""
        if self._closed:
            raise EncoderStateError(f"{self!r} is closed")
        if forks.count != self._forks:
            raise ForkedProcessError(f"{self!r} was opened in process {self._pid} before a fork; {AFTER_FORK}")

    def close(self) -> None:
        """Waits for committed work and releases the queue; buffers stay readable. Closing twice is allowed."""
        with self._lock:
            if self._closed or forks.count != self._forks:
                return
            self._closed = True
            if self._kernels is not None:
                self._kernels.save()
            self._kernels = None
            self.recorded_ops.clear()
            self.recycler.clear()
        with self.backend.autorelease_pool():
            try:
                if "submissions" in self.__dict__:
                    self.submissions.wait_all()
            finally:
                self.residency.close()


_MOST_USUAL = 1024
_usual: dict[tuple[Any, tuple[int, ...]], Signature] = {}
"""Signatures of array types and shapes seen in earlier calls."""


def _remember(array: Array) -> Signature:
    if len(_usual) >= _MOST_USUAL:
        _usual.clear()
    signature = _usual[array.dtype, array.shape] = signature_of(DType.of(array.dtype), array.shape)
    return signature


def require_open(device: Any) -> None:
    """Raises for what is no device, and for one that is closed or was opened before a fork."""
    if not isinstance(device, DeviceContext):
        raise InvalidArgument(f"device is {device!r}, expected an MlxDevice")
    device.require_open()


def _elements(source: Any, dtype: Any) -> Array:
    """The source as an array of a supported element type."""
    if isinstance(source, _RAW):
        kind = DType.of(DType.U8 if dtype is None else dtype)
        nbytes = memoryview(source).nbytes
        if nbytes % kind.size:
            raise InvalidArgument(f"{nbytes} bytes are not a whole number of {kind} elements")
        array: Array = np.frombuffer(source, kind.numpy)
    else:
        array = as_array(source)
        python = isinstance(source, (int, float, list, tuple, range))
        if dtype is None:
            array = narrowed(array, python)
        else:
            array = exactly(source, DType.of(dtype)) if python else _converted(array, DType.of(dtype))
    DType.of(array.dtype)
    as_shape(array.shape)
    return array


def _converted(array: Array, dtype: DType) -> Array:
    try:
        with np.errstate(all="ignore"):
            return array.astype(dtype.numpy, copy=False)
    except (TypeError, ValueError, OverflowError) as reason:
        raise InvalidArgument(f"{array.dtype}{list(array.shape)} cannot become {dtype}: {reason}") from None
