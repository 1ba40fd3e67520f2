"""Arrays of the CPU as arguments of one launch: brought to the device, and what was written brought back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .buffer import Array, MlxBuffer
from .errors import InvalidArgument

if TYPE_CHECKING:
    from .device import MlxDevice

__all__ = ["Staging"]

_EFFORT = 1000  # of numpy's search for shared bytes; beyond it they count as shared


@dataclass(slots=True)
class _Staged:
    name: str
    array: Array
    buffer: MlxBuffer
    copied: bool
    written: bool


class Staging:
    """The arrays of one launch; one that lies in device memory, or can be used in place, is not copied."""

    def __init__(self, device: MlxDevice) -> None:
        self._device = device
        self._staged: list[_Staged] = []

    def bring(self, name: str, array: Array, *, written: bool) -> MlxBuffer:
        """A buffer with the array's elements; the same array given twice is one buffer."""
        if written and not array.flags.writeable:
            raise InvalidArgument(f"argument {name!r} is written by the kernel, but the array is read-only")
        place = _place(array)
        for other in self._staged:
            if _place(other.array) == place:
                other.written |= written
                return other.buffer
        buffer = self._device.buffer(array, copy=None)
        in_place = (buffer.allocation.address + buffer.offset, array.flags.c_contiguous) == (place[0], True)
        self._staged.append(_Staged(name, array, buffer, not in_place, written))
        self._refuse_overlap(self._staged[-1])
        return buffer

    @property
    def to_bring_back(self) -> list[str]:
        """The names of the arguments that are written in a copy."""
        return [each.name for each in self._staged if each.copied and each.written]

    def bring_back(self) -> None:
        """Copies what the kernel wrote into the arrays."""
        for each in self._staged:
            if each.copied and each.written:
                each.array[...] = each.buffer.numpy()

    def _refuse_overlap(self, new: _Staged) -> None:
        """Copies of overlapping arrays would each miss what is written to the other."""
        for other in self._staged[:-1]:
            if (new.copied or other.copied) and (new.written or other.written) and _overlap(new.array, other.array):
                raise InvalidArgument(
                    f"arguments {other.name!r} and {new.name!r} share some of their memory, and one is written; "
                    "put the data into a device.buffer() and pass views of it"
                )


def _place(array: Array) -> tuple[Any, ...]:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _overlap(one: Array, two: Array) -> bool:
    try:
        return bool(np.shares_memory(one, two, max_work=_EFFORT))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
