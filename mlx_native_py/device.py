"""A device, its queue and its residency set, and everything that is made from them."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import settings
from .dtypes import DType, narrowed
from .errors import AFTER_FORK, DeviceNotFound, EncoderStateError, ForkedProcessError, InvalidArgument
from .memory.allocation import Allocation, adopt, allocate, allocation_behind, over_pages
from .memory.buffer import Array, MlxBuffer, as_array
from .memory.residency import open_residency
from .memory.shapes import as_shape, whole
from .metal import Backend, open_metal
from .settings import BackendName

if TYPE_CHECKING:
    from .calls.library import Library
    from .encoder import CommandEncoder, Submissions
    from .encoder.session import EncoderSession
    from .graph import ComputeGraph
    from .memory.pool import MlxBufferPool
    from .pipelines.registry import KernelRegistry

__all__ = ["MlxDevice"]

# Metal's fixed limits, which no device answers for itself.
_FIXED_LIMITS = {
    "max_buffer_bindings": 31,
    "max_threadgroup_bindings": 31,
    "max_inline_bytes": 4096,
    "max_counter_samples": 4096,
    "max_unfinished_command_buffers": 64,
}
_RAW = (bytes, bytearray, memoryview, mmap.mmap)


class MlxDevice:
    """Metal's default device: Apple's, or the software one; `backend` says which, else `MLX_NATIVE_DEVICE`.

    >>> with MlxDevice("soft") as device:
    ...     x = device.alloc_buffer(16, DType.F32, (2, 2))
    ...     print(x, x.numpy().sum())
    MlxBuffer(f32[2, 2], 16 bytes) 0.0
    """

    def __init__(self, backend: Backend | BackendName | None = None) -> None:
        self.backend = backend if isinstance(backend, Backend) else open_metal(backend)
        with self.backend.autorelease_pool():
            self.mtl = self.backend.default_device()
            self.queue = self.mtl.newCommandQueue()
            if self.queue is None:
                raise DeviceNotFound(f"the {self.backend.kind} device gives no command queue")
            self.capabilities = self.backend.capabilities(self.mtl)
            wanted = not settings.current().no_residency
            self.residency = open_residency(self.backend, self.mtl, self.queue, self.capabilities, wanted=wanted)
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.RLock()
        self._kernels: KernelRegistry | None = None
        self._submissions: Submissions | None = None

    @property
    def name(self) -> str:
        """The device's own name.

        >>> bool(MlxDevice("soft").name)
        True
        """
        return self.capabilities.name

    @property
    def residency_sets_enabled(self) -> bool:
        """Whether allocations are kept resident by a set."""
        return self.residency.enabled

    def info(self) -> dict[str, Any]:
        """Every fact and limit by name.

        >>> info = MlxDevice("soft").info()
        >>> info["max_threadgroup_memory"], info["max_inline_bytes"], info["backend"]
        (32768, 4096, 'soft')
        """
        return {
            "backend": self.backend.kind,
            **asdict(self.capabilities),
            **_FIXED_LIMITS,
            "page_size": mmap.PAGESIZE,
            "currently_allocated": int(self.mtl.currentAllocatedSize()),
            "residency": self.residency.reason or f"{self.residency.count} allocations",
        }

    def __repr__(self) -> str:
        return f"MlxDevice({self.name!r}, {self.backend.kind}{', closed' * self._closed})"

    # Buffers

    def alloc_buffer(self, byte_len: int, dtype: Any, shape: int | Sequence[int], *, label: str = "") -> MlxBuffer:
        """Zero-filled memory of exactly `byte_len` bytes, which must be what `dtype` and `shape` take.

        >>> MlxDevice("soft").alloc_buffer(24, "f32", (2, 4))
        Traceback (most recent call last):
        mlx_native_py.errors.InvalidArgument: byte_len is 24, but f32[2, 4] takes 32 bytes
        """
        nbytes, kind = whole(byte_len, "byte_len", 1), DType.of(dtype)
        axes, count = as_shape(shape)
        if nbytes != count * kind.size:
            raise InvalidArgument(f"byte_len is {nbytes}, but {kind}{list(axes)} takes {count * kind.size} bytes")
        found = self.empty(axes, kind, label=label)
        # Metal recycles pages, so a fresh buffer may hold old bytes.
        ctypes.memset(found.allocation.address, 0, nbytes)
        return found

    def empty(self, shape: int | Sequence[int], dtype: Any = DType.F32, *, label: str = "") -> MlxBuffer:
        """Memory for `shape`, not cleared.

        >>> MlxDevice("soft").empty((2, 3), "bf16")
        MlxBuffer(bf16[2, 3], 12 bytes)
        """
        (axes, count), kind = as_shape(shape), DType.of(dtype)
        nbytes = count * kind.size
        found = MlxBuffer(self.allocate(nbytes), kind, axes, 0, nbytes)
        if label:
            found.label = label
        return found

    def buffer(self, source: Any, dtype: Any = None, *, copy: bool | None = True, label: str = "") -> MlxBuffer:
        """A buffer with the elements of an array: numpy's, another library's by DLPack, a list, or raw memory.

        `copy=True` copies, `copy=False` lies over the same memory or says why it cannot, `copy=None` does what it can.
        `dtype` converts an array, and says what raw memory (bytes, an mmap) is made of.

        >>> device = MlxDevice("soft")
        >>> device.buffer([1.0, 2.0])
        MlxBuffer(f32[2], 8 bytes)
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
        found = None
        if copy is not True:
            try:
                found = self._over(array)
            except InvalidArgument:
                if copy is False:
                    raise
        if found is None:
            found = self.empty(array.shape, array.dtype)
            found.numpy()[...] = array
        if label:
            found.label = label
        return found

    def wrap(self, mtl: Any, dtype: Any, shape: int | Sequence[int]) -> MlxBuffer:
        """A buffer over an MTLBuffer that someone else made."""
        self.require_open()
        (axes, count), kind = as_shape(shape), DType.of(dtype)
        nbytes = count * kind.size
        if nbytes > int(mtl.length()):
            raise InvalidArgument(f"{kind}{list(axes)} takes {nbytes} bytes, and the MTLBuffer has {mtl.length()}")
        return MlxBuffer(adopt(self.backend, mtl, self.residency), kind, axes, 0, nbytes)

    def buffer_pool(self, **options: Any) -> MlxBufferPool:
        """A pool of buffers of this device; see `MlxBufferPool`."""
        from .memory.pool import MlxBufferPool

        return MlxBufferPool(self, **options)

    def allocate(self, nbytes: int) -> Allocation:
        """Memory as such, for whoever makes buffers over it; not cleared."""
        self.require_open()
        return allocate(self.backend, self.mtl, nbytes, self.capabilities.max_buffer_length, self.residency)

    def _over(self, array: Array) -> MlxBuffer:
        self.require_open()
        if not array.flags.c_contiguous:
            raise InvalidArgument(f"cannot use this memory without a copy: strides {array.strides} are not row-major")
        kind, behind = DType.of(array.dtype), allocation_behind(array)
        if behind is not None and behind.residency is self.residency:
            behind.require_live()
            return MlxBuffer(behind, kind, array.shape, _address(array) - behind.address, array.nbytes)
        limit = self.capabilities.max_buffer_length
        allocation, offset = over_pages(self.backend, self.mtl, array, limit, self.residency)
        return MlxBuffer(allocation, kind, array.shape, offset, array.nbytes)

    # Work

    @property
    def kernels(self) -> KernelRegistry:
        """The kernels that this device knows by name."""
        self.require_open()
        with self._lock:
            if self._kernels is None:
                from .pipelines.registry import KernelRegistry

                self._kernels = KernelRegistry(self)
            return self._kernels

    @property
    def submissions(self) -> Submissions:
        """The command buffers of this device's queue, from birth to completion."""
        if self._submissions is None:
            from .encoder import Submissions

            with self._lock:
                if self._submissions is None:
                    self._submissions = Submissions(self)
        return self._submissions

    def command_encoder(self, **options: Any) -> CommandEncoder:
        """A fresh command buffer to encode into; see `CommandEncoder`."""
        from .encoder import CommandEncoder

        self.require_open()
        return CommandEncoder(self, **options)

    def encoder_session(self, **options: Any) -> EncoderSession:
        """Several command buffers in stages; see `EncoderSession`."""
        from .encoder.session import EncoderSession

        self.require_open()
        return EncoderSession(self, **options)

    def capture(self, **names: MlxBuffer) -> AbstractContextManager[ComputeGraph]:
        """Records what is encoded on the graph's `encoder` inside the block; `names` are inputs and results.

        >>> with device.capture(y=y) as g:
        ...     g.encoder.dispatch(axpy, x, y, 2.0, threads=4)
        >>> g
        <ComputeGraph of 1 dispatch, 0 barriers>
        """
        from .graph import capture

        return capture(self, **names)

    def compile(self, source: str | Path, **options: Any) -> Library:
        """The kernels of an MSL source as callables; see `mlx_native_py.kernel`."""
        from .calls.library import kernel

        self.require_open()
        return kernel(source, device=self, **options)

    # Life

    @property
    def is_closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    def require_open(self) -> None:
        """Raises where the device is closed, or belongs to the process that this one was forked from."""
        if self._closed:
            raise EncoderStateError(f"{self!r} is closed")
        if os.getpid() != self._pid:
            raise ForkedProcessError(f"{self!r} was opened in process {self._pid} before a fork; {AFTER_FORK}")

    def close(self) -> None:
        """Waits for what is committed and lets go of the queue; buffers stay readable. Twice is once."""
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
            if self._kernels is not None:
                self._kernels.save()
            self._kernels = None
        with self.backend.autorelease_pool():
            try:
                if self._submissions is not None:
                    self._submissions.wait_all()
            finally:
                self.residency.close()

    def __enter__(self) -> MlxDevice:
        self.require_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _elements(source: Any, dtype: Any) -> Array:
    """What is to be in the buffer, of a type that buffers have."""
    if isinstance(source, _RAW):
        kind = DType.of(DType.U8 if dtype is None else dtype)
        nbytes = memoryview(source).nbytes
        if nbytes % kind.size:
            raise InvalidArgument(f"{nbytes} bytes are not a whole number of {kind} elements")
        array: Array = np.frombuffer(source, kind.numpy)
    else:
        array = as_array(source)
        array = narrowed(array) if dtype is None else _converted(array, DType.of(dtype))
    DType.of(array.dtype)
    as_shape(array.shape)
    return array


def _converted(array: Array, dtype: DType) -> Array:
    try:
        with np.errstate(all="ignore"):
            return array.astype(dtype.numpy, copy=False)
    except (TypeError, ValueError, OverflowError) as reason:
        raise InvalidArgument(f"{array.dtype}{list(array.shape)} cannot become {dtype}: {reason}") from None
