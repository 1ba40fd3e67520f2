"""Layout functions: transposes, strided copies, slices, repeats, concatenation, take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...device import MlxDevice
from ...memory.buffer import MlxBuffer
from ...ops.strides import axis_of
from ..call import Array, call

__all__ = [
    "as_strided",
    "concatenate",
    "contiguous",
    "repeat",
    "slice",
    "slice_update",
    "swapaxes",
    "take",
    "tile",
]


def swapaxes(a: Array, axis1: int, axis2: int, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Swaps two axes."""
    with call(stream, a) as run:
        x = run.put(a, "a")
        axes = list(range(x.ndim))
        axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
        return ops.transpose(run.enc, x, axes)


def contiguous(a: Array, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """A contiguous copy."""
    with call(stream, a) as run:
        return ops.copy(run.enc, run.put(a, "a"))


def as_strided(
    a: Array,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    offset: int = 0,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """A strided copy; strides and offset are in elements.

    >>> fn.as_strided(np.arange(8, dtype=np.float32), (3, 2), (2, 1), 1).numpy()
    array([[1., 2.],
           [3., 4.],
           [5., 6.]], dtype=float32)
    """
    with call(stream, a) as run:
        return ops.copy(run.enc, run.put(a, "a"), shape=shape, strides=strides, offset=offset)


def repeat(array: Array, repeats: int, axis: int | None = None, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Repeats each element along an axis, or of the flattened array.

    >>> fn.repeat(np.float32([1, 2]), 3).numpy()
    array([1., 1., 1., 2., 2., 2.], dtype=float32)
    """
    with call(stream, array) as run:
        x = run.put(array, "array")
        return ops.repeat(run.enc, x.reshape(x.size) if axis is None else x, repeats, axis=axis or 0)


def tile(a: Array, reps: int | Sequence[int], *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Repeats the array along each axis."""
    with call(stream, a) as run:
        x = run.put(a, "a")
        counts = [reps] if isinstance(reps, int) else list(reps)
        axes = max(x.ndim, len(counts))
        x = x.reshape((1,) * (axes - x.ndim) + x.shape)
        for axis, count in enumerate([1] * (axes - len(counts)) + counts):
            if count != 1:
                x = ops.repeat(run.enc, x, count, axis=axis, tiled=True)
        return ops.copy(run.enc, x) if math.prod(counts) == 1 else x


def concatenate(arrays: Sequence[Any], axis: int | None = 0, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Concatenates arrays along an axis, or all flattened."""
    with call(stream, *arrays) as run:
        parts = [run.put(each, f"arrays[{index}]") for index, each in enumerate(arrays)]
        if axis is None:
            parts = [each.reshape(each.size) for each in parts]
        return ops.concat(run.enc, parts, axis=axis or 0)


def slice(
    a: Array, start_indices: Any, axes: Sequence[int], slice_size: Sequence[int], *, stream: MlxDevice | None = None
) -> MlxBuffer:
    """A block of `slice_size`, one number per axis, starting at `start_indices` of `axes`.

    >>> fn.slice(np.arange(12, dtype=np.float32).reshape(3, 4), [1, 2], [0, 1], [2, 2]).numpy()
    array([[ 6.,  7.],
           [10., 11.]], dtype=float32)
    """
    with call(stream, a) as run:
        x = run.put(a, "a")
        first = _starts(x, start_indices, axes)
        last = [begin + size for begin, size in zip(first, slice_size, strict=False)]
        return ops.slice(run.enc, x, first, last)


def slice_update(
    a: Array, update: Array, start_indices: Any, axes: Sequence[int], *, stream: MlxDevice | None = None
) -> MlxBuffer:
    """A copy of the array with the block at `start_indices` of `axes` replaced.

    >>> fn.slice_update(np.zeros((2, 3), np.float32), np.ones((1, 2), np.float32), [1, 0], [0, 1]).numpy()
    array([[0., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    with call(stream, a, update) as run:
        x = run.put(a, "a")
        copy = ops.copy(run.enc, x)
        return ops.slice_update(run.enc, copy, run.put(update, "update"), _starts(x, start_indices, axes))


def take(a: Array, indices: Array, axis: int | None = None, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Elements along an axis by index, or of the flattened array. Zeros for indices out of range.

    >>> fn.take(np.float32([[1, 2], [3, 4], [5, 6]]), [2, 0, -1], axis=0).numpy()
    array([[5., 6.],
           [1., 2.],
           [5., 6.]], dtype=float32)
    """
    with call(stream, a, indices) as run:
        x, ids = run.put(a, "a"), run.put_integers(indices, "indices")
        if axis is None:
            return ops.gather(run.enc, x.reshape(x.size), ids)
        at = axis_of(x, axis)
        if at == 0:
            return ops.gather(run.enc, x, ids)
        rest = [other for other in range(x.ndim) if other != at]
        rows = ops.gather(run.enc, ops.transpose(run.enc, x, [at, *rest]), ids)
        axes = list(range(ids.ndim, rows.ndim))
        return ops.transpose(run.enc, rows, [*axes[:at], *range(ids.ndim), *axes[at:]])


def _starts(x: MlxBuffer, start_indices: Any, axes: Sequence[int]) -> list[int]:
    starts = [0] * x.ndim
    for axis, start in zip(axes, np.asarray(start_indices).reshape(-1).tolist(), strict=True):
        starts[axis_of(x, axis)] = start
    return starts
