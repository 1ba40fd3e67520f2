"""Buffers: typed, shaped views of device memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DType
from ..errors import InvalidArgument
from ..hazards.ranges import Span
from . import dlpack
from .allocation import Allocation
from .array_methods import ArrayMethods, NoLength, OutOfRange
from .shapes import as_shape, whole
from .signature import Signature, signature_of

__all__ = ["MlxBuffer", "as_array", "exactly"]

Array = np.ndarray[Any, np.dtype[Any]]


class MlxBuffer(ArrayMethods):
    """Elements of one type in row-major order; a view has its own length and offset.

    `numpy()` and everything that uses it wait for committed work that writes these bytes, so reads are never stale. An
    array obtained earlier shows the memory as it is. Buffers and views are never empty.

    >>> x = device.buffer(np.arange(12, dtype=np.float32).reshape(3, 4))
    >>> x[1:]
    MlxBuffer(f32[2, 4], 32 bytes at 16 of 48: 4, 5, 6, ..., 11)
    >>> x[1].numpy()
    array([4., 5., 6., 7.], dtype=float32)
    >>> np.asarray(x)[2, 0] = 100  # the buffer's own memory
    >>> x.slice_view(32, 2).numpy()
    array([100.,   9.], dtype=float32)
    """

    __slots__ = (
        "allocation",
        "mtl",
        "offset",
        "nbytes",
        "dtype",
        "shape",
        "span",
        "start",
        "end",
        "passed",
        "suits_most",
        "signed",
        "__weakref__",
    )

    intervals = None
    """A view has no gaps; see `hazards.tracker.ByteRange`."""

    def __init__(self, allocation: Allocation, dtype: DType, shape: tuple[int, ...], offset: int, nbytes: int) -> None:
        self.allocation = allocation
        self.mtl = allocation.mtl
        """The MTLBuffer. Keep this buffer alive too: the memory of dropped results is recycled."""
        self.offset = offset
        """Byte offset in the MTLBuffer."""
        self.nbytes = nbytes
        self.dtype = dtype
        self.shape = shape
        self.start = start = allocation.address + offset
        self.end = end = start + nbytes
        self.span: Span = (allocation.memory, start, end)
        self.passed = 0
        """Bits of the argument requirements that it is known to meet."""
        self.suits_most = False
        """Whether it is long, aligned and writable enough for almost any kernel argument."""
        self.signed: Signature | None = None
        """The cached signature."""

    @property
    def signature(self) -> Signature:
        """Type, shape and alignment as one object; created on demand, since most views never need it."""
        if self.signed is None:
            self.signed = signature_of(self.dtype, self.shape, self.offset, self.allocation.readonly)
        return self.signed

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.nbytes // self.dtype.size

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def readonly(self) -> bool:
        """Whether neither the CPU nor a kernel may write to it."""
        return self.allocation.readonly

    @property
    def label(self) -> str:
        """The label of the allocation in GPU traces and barrier explanations."""
        return self.allocation.memory.label

    @label.setter
    def label(self, label: str) -> None:
        self.allocation.set_label(label)

    def __len__(self) -> int:
        if not self.shape:
            raise NoLength("a buffer of shape () has no length; item() is its value")
        return self.shape[0]

    # Views

    def slice_view(self, byte_offset: int, n_elements: int) -> MlxBuffer:
        """A one-dimensional view of `n_elements`, starting `byte_offset` bytes into this buffer or view."""
        offset, count = whole(byte_offset, "byte_offset"), whole(n_elements, "n_elements", 1)
        size = self.dtype.size
        if offset % size:
            raise InvalidArgument(f"byte_offset is {offset}, expected a multiple of {size}, the size of {self.dtype}")
        if offset + count * size > self.nbytes:
            raise InvalidArgument(
                f"slice_view({offset}, {count}) ends at byte {offset + count * size}, beyond the end of {self!r}"
            )
        return MlxBuffer(self.allocation, self.dtype, (count,), self.offset + offset, count * size)

    def __getitem__(self, key: Any) -> MlxBuffer:
        """`buf[a:b]` along the first axis, or `buf[i]`; other keys go to `select`."""
        if not self.shape or not isinstance(key, (slice, int, np.integer)) or isinstance(key, bool):
            return self.select(key)
        row = self.nbytes // self.shape[0]
        if isinstance(key, slice):
            try:
                first, last, step = key.indices(self.shape[0])
            except (TypeError, ValueError) as problem:
                raise InvalidArgument(f"{key!r} cannot index {self!r}: {problem}") from None
            if step != 1:
                return self.select(key)
            if first >= last:
                raise InvalidArgument(f"[{first}:{last}] of {self!r} is empty, and Metal has no empty buffers")
            shape, count = (last - first, *self.shape[1:]), last - first
        else:
            first, shape, count = self._row(key), self.shape[1:], 1
        return MlxBuffer(self.allocation, self.dtype, shape, self.offset + first * row, count * row)

    def _row(self, key: Any) -> int:
        index = operator.index(key)
        if not -self.shape[0] <= index < self.shape[0]:
            raise OutOfRange(f"index {index} is outside the first axis of {self!r}")
        return index % self.shape[0]

    def reshape(self, *shape: int | Sequence[int]) -> MlxBuffer:
        """The same elements with another shape; one axis may be -1.

        >>> device.zeros((4, 6)).reshape(-1, 8).shape
        (3, 8)
        """
        known = self.signature.reshaped
        try:
            signature = known.get(shape)
        except TypeError:  # lists are welcome, but cannot be looked up
            return self._same_bytes(self.dtype, self._axes(shape[0]))
        if signature is None:
            axes = self._axes(shape[0] if len(shape) == 1 else shape)
            signature = known[shape] = signature_of(self.dtype, axes, self.offset, self.allocation.readonly)
        other = self._same_bytes(self.dtype, signature.shape)
        other.signed = signature
        return other

    def _axes(self, given: Any) -> tuple[int, ...]:
        axes, count = as_shape(_filled(given, self.size))
        if count != self.size:
            raise InvalidArgument(f"shape {axes} has {count} elements, and {self!r} has {self.size}")
        return axes

    def _same_bytes(self, dtype: DType, shape: tuple[int, ...]) -> MlxBuffer:
        """A view of the same bytes with another type or shape; it meets the same argument requirements."""
        other = MlxBuffer(self.allocation, dtype, shape, self.offset, self.nbytes)
        other.passed, other.suits_most = self.passed, self.suits_most
        return other

    def view(self, dtype: Any) -> MlxBuffer:
        """The same bytes as another element type; the last axis changes accordingly.

        >>> device.ones((1, 1), "f32").view("u16")
        MlxBuffer(u16[1, 2], 4 bytes: 0, 16256)
        """
        wanted = DType.of(dtype)
        axes = self.shape or (1,)
        row = axes[-1] * self.dtype.size
        if row % wanted.size or self.offset % wanted.size:
            raise InvalidArgument(f"{self!r} cannot be seen as {wanted}: rows of {row} bytes at offset {self.offset}")
        return self._same_bytes(wanted, (*axes[:-1], row // wanted.size))

    # CPU access

    def numpy(self, *, wait: bool = True) -> Array:
        """A numpy array over the same memory, which it keeps alive; read-only if the buffer is.

        Waits for committed work that writes these bytes and raises its error, unless `wait=False`.
        """
        if wait and (writer := self.allocation.writer(self.start, self.end)) is not None:
            writer.wait()
        data = self.allocation.bytes()[self.offset : self.offset + self.nbytes]
        return data.view(self.dtype.numpy).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise InvalidArgument(f"{self!r} as {dtype} takes a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def to_bytes(self) -> bytes:
        """A copy of the bytes."""
        return self.numpy().tobytes()

    def fill(self, value: Any) -> MlxBuffer:
        """Sets every element from the CPU; raises if the type cannot hold the value.

        >>> device.empty((2, 2), "i8").fill(-1).numpy().sum()
        np.int64(-4)
        """
        target = self._writable()
        given = exactly(value, self.dtype)
        if given.shape:
            raise InvalidArgument(f"fill takes one value, not an array of shape {given.shape}; use copy_from")
        target[...] = given
        return self

    def copy_from(self, source: Any) -> MlxBuffer:
        """Copies from the CPU: bytes of the same length, or elements of the same type and shape.

        A list or number is converted to this buffer's type first.

        >>> device.empty(3, "u8").copy_from([1, 2, 3]).to_bytes()
        b'\\x01\\x02\\x03'
        """
        target = self._writable()
        if isinstance(source, (bytes, bytearray, memoryview)):
            given: Array = np.frombuffer(source, np.uint8)
            target = target.reshape(-1).view(np.uint8)
        elif isinstance(source, (np.ndarray, np.generic, MlxBuffer)) or hasattr(source, "__dlpack__"):
            given = as_array(source)
        else:
            given = exactly(source, self.dtype)
        if (given.dtype, given.shape) != (target.dtype, target.shape):
            raise InvalidArgument(
                f"copy_from got {given.dtype}{list(given.shape)}, expected {target.dtype}{list(target.shape)}"
            )
        target[...] = given
        return self

    def _writable(self) -> Array:
        if self.readonly:
            raise InvalidArgument(f"{self!r} uses read-only memory")
        return self.numpy()

    # DLPack

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return dlpack.to_capsule(self.numpy(), stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def _filled(shape: Any, size: int) -> Any:
    """A shape with its -1 replaced; anything else unchanged."""
    if not isinstance(shape, (list, tuple)) or shape.count(-1) != 1:
        return size if shape == -1 else shape
    others = [axis for axis in shape if axis != -1]
    known = math.prod(others) if all(isinstance(axis, int) for axis in others) else 0
    return [size // known if axis == -1 else axis for axis in shape] if known > 0 and size % known == 0 else shape


def as_array(source: Any) -> Array:
    """An array of any library as a numpy array, without a copy if possible."""
    if isinstance(source, np.ndarray):
        return source
    if isinstance(source, MlxBuffer):
        return source.numpy()
    if hasattr(source, "__dlpack__") and tuple(source.__dlpack_device__())[0] == dlpack.CPU[0]:
        return dlpack.from_capsule(source)
    try:
        return np.asarray(source)
    except (TypeError, ValueError) as reason:
        raise InvalidArgument(f"this {type(source).__name__} cannot be made an array: {reason}") from None


def exactly(values: Any, dtype: DType) -> Array:
    """Numbers as elements of `dtype`; floats are rounded, integers that do not fit raise.

    >>> exactly([1, 2], DType.U8), exactly(300, DType.U8)
    Traceback (most recent call last):
    mlx_native_py.errors.InvalidArgument: 300 is not a value of u8
    """
    try:
        given = np.asarray(values)
        with np.errstate(all="ignore"):
            converted: Array = given.astype(dtype.numpy)
        if dtype.is_float or bool((converted == given).all()):
            return converted
    except (TypeError, ValueError, OverflowError):
        pass
    kind = "an array" if isinstance(values, (list, tuple, np.ndarray)) else "a value"
    raise InvalidArgument(f"{values!r} is not {kind} of {dtype}")
