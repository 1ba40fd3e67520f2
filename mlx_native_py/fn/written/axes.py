"""Arrays as rows along any of their axes, for functions with `axis`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import ops
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ...memory.shapes import whole
from ..call import FunctionCall

__all__: list[str] = []

Axis = int | Sequence[int] | None


class AxisRows:
    """A buffer with the given axes merged and moved to the end, and the inverse for results."""

    def __init__(self, run: FunctionCall, name: str, x: MlxBuffer, axis: Axis) -> None:
        self._enc = run.enc
        self._shape = x.shape
        self._axes = _checked(name, x, axis)
        others = [i for i in range(x.ndim) if i not in self._axes]
        self._order = [*others, *self._axes]
        self._outer = tuple(x.shape[i] for i in others)
        length = math.prod(x.shape[i] for i in self._axes)
        moved = x if self._order == sorted(self._order) else ops.transpose(run.enc, x, self._order)
        self.buffer: MlxBuffer = moved.reshape((*self._outer, length))

    def back(self, y: MlxBuffer) -> MlxBuffer:
        """Rows rearranged to the original axes; rows may have another length if they are one axis."""
        if len(self._axes) == 1:
            y = y.reshape((*self._outer, y.shape[-1]))
        else:
            y = y.reshape((*self._outer, *(self._shape[i] for i in self._axes)))
        if self._order == sorted(self._order):
            return y
        return ops.transpose(self._enc, y, [self._order.index(i) for i in range(len(self._order))])

    def reduced(self, y: MlxBuffer, keepdims: bool) -> MlxBuffer:
        """One value per row, with the original axes minus the reduced ones."""
        if keepdims:
            return y.reshape(tuple(1 if i in self._axes else n for i, n in enumerate(self._shape)))
        return y.reshape(self._outer)


def _checked(name: str, x: MlxBuffer, axis: Axis) -> list[int]:
    if axis is None:
        return list(range(x.ndim))
    given = [axis] if not isinstance(axis, Sequence) else list(axis)
    axes = []
    for each in given:
        index = whole(each, f"{name}: axis", -(2**63))
        if not -x.ndim <= index < x.ndim:
            raise InvalidArgument(f"{name}: axis is {axis}, expected axes of {x.dtype}{list(x.shape)}")
        axes.append(index % x.ndim)
    if len(set(axes)) < len(axes):
        raise InvalidArgument(f"{name}: axis is {axis}, expected each axis once")
    return sorted(axes)
