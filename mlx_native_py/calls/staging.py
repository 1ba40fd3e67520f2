"""Staging: copies arrays to the device for a kernel call, and results back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import narrowed
from ..encoder import DeviceContext, Out, Ticket
from ..errors import InvalidArgument
from ..memory.allocation import address_of
from ..memory.buffer import Array, MlxBuffer, as_array
from ..memory.texture import MlxTexture
from ..pipelines.pipeline import Binding, Pipeline

__all__ = ["Staging"]

_EFFORT = 1000  # of numpy's search for shared bytes; beyond it they count as shared
_shares_memory: Callable[..., bool] = np.shares_memory  # whose stubs know only two limits of effort


@dataclass(slots=True)
class _Staged:
    name: str
    array: Array
    place: tuple[Any, ...]
    buffer: MlxBuffer
    copied: bool
    written: bool

    def bring_back(self) -> None:
        """What the kernel wrote, into the array, whose elements may be wider than the buffer's."""
        if self.array.flags.c_contiguous and self.array.nbytes == self.buffer.nbytes:
            ctypes.memmove(self.place[0], self.buffer.start, self.array.nbytes)
        else:
            self.array[...] = self.buffer.numpy()


class Staging:
    """The array arguments of one launch; arrays in device memory, or usable in place, are not copied."""

    def __init__(self, device: DeviceContext, pipeline: Pipeline) -> None:
        self._device = device
        self._kernel = f"kernel {pipeline.label!r}"
        self._staged: list[_Staged] = []
        self._copies: list[MlxBuffer] = []

    def argument(self, binding: Binding | None, given: Any) -> Any:
        """Converts an argument for `dispatch`: arrays become buffers, everything else is passed on."""
        if binding is None:
            return given
        inner = given.buffer if isinstance(given, Out) else given
        if isinstance(inner, MlxBuffer):
            if binding.scalar is not None and binding.scalar.dtype is not inner.dtype:
                self._check_type(binding, inner.dtype.numpy, "buffer")
            return given
        if isinstance(inner, MlxTexture):
            raise InvalidArgument(f"{self._kernel}: {binding} is a buffer in the kernel, and {inner!r} was given")
        array = _as_array(binding, inner)
        if array is None:
            return given
        if array.dtype.names is not None:
            array = self._records(binding, array)
        else:
            self._check_type(binding, array.dtype, "array")
        buffer = self._bring(binding.name, array, written=binding.writes)
        return Out(buffer) if isinstance(given, Out) else buffer

    def _records(self, binding: Binding, array: Array) -> Array:
        """A structured array as its bytes, where each record has the size of the kernel's struct."""
        if binding.scalar is not None or array.dtype.itemsize != binding.size or not array.flags.c_contiguous:
            raise InvalidArgument(
                f"{self._kernel}: {binding} holds values of {binding.size} bytes; the array has records of "
                f"{array.dtype.itemsize}, and must be contiguous. np.dtype([...], align=True) lays fields out as C does"
            )
        return array.reshape(-1).view(np.uint8)

    def _bring(self, name: str, array: Array, *, written: bool) -> MlxBuffer:
        """A buffer with the array's elements; the same array given twice is one buffer."""
        if written and not array.flags.writeable:
            raise InvalidArgument(f"{self._kernel}: argument {name!r} is written, but the array is read-only")
        place = address_of(array), array.shape, array.strides, array.dtype
        for other in self._staged:
            if other.place == place:
                other.written |= written
                return other.buffer
        try:
            buffer = self._device.staged(array, self._copies)
        except InvalidArgument as problem:
            raise InvalidArgument(f"{self._kernel}: argument {name!r}: {problem}") from None
        in_place = buffer.start == place[0] and array.flags.c_contiguous
        new = _Staged(name, array, place, buffer, not in_place, written)
        self._refuse_overlap(new)
        self._staged.append(new)
        return buffer

    def require_no_copies(self, how: str) -> None:
        """Raises if an argument would be written in a copy, for a launch that is not waited for."""
        if names := [repr(each.name) for each in self._staged if each.copied and each.written]:
            raise InvalidArgument(
                f"{self._kernel}: with {how}, what it writes must be a device buffer or an array over one; "
                f"{', '.join(names)} would be copied"
            )

    def bring_back(self, ticket: Ticket, values: list[Any]) -> None:
        """Copies results back into the arrays, and recycles the memory of the copies."""
        if not self._staged:
            return
        for each in self._staged:
            if each.copied and each.written:
                each.bring_back()
        if ticket.is_closed and self._copies:
            del each
            values.clear()
            self._staged.clear()
            self._device.recycler.give_back(self._copies)

    def _check_type(self, binding: Binding, given: Any, what: str) -> None:
        scalar = binding.scalar
        if scalar is not None and given != (expected := scalar.dtype.numpy):
            raise InvalidArgument(
                f"{self._kernel}: {binding} is declared {scalar.name}, and the {what} has {given}; "
                f"convert it to {expected}, or take a view({str(expected)!r}) of the same bytes"
            )

    def _refuse_overlap(self, new: _Staged) -> None:
        """Copies of overlapping arrays would each miss what is written to the other."""
        for other in self._staged:
            if (new.copied or other.copied) and (new.written or other.written) and _overlap(new.array, other.array):
                raise InvalidArgument(
                    f"{self._kernel}: arguments {other.name!r} and {new.name!r} share some of their memory, "
                    "and one is written; put the data into a device.buffer() and pass views of it"
                )


def _as_array(binding: Binding, given: Any) -> Array | None:
    """The array that an argument is; None for values, which travel with the command."""
    if type(given) is np.ndarray:
        array: Array = given
    elif isinstance(given, np.generic) or not (hasattr(given, "__array__") or hasattr(given, "__dlpack__")):
        return None
    else:
        array = as_array(given)
    scalar = binding.scalar
    is_value = array.ndim == 0 or (scalar is not None and scalar.lanes > 1 and array.shape == (scalar.lanes,))
    if binding.writes:
        return array
    return None if is_value else narrowed(array)


def _overlap(one: Array, two: Array) -> bool:
    try:
        return _shares_memory(one, two, max_work=_EFFORT)
    except np.exceptions.TooHardError:
        return True
