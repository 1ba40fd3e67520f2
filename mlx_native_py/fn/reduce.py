"""Sums, running sums, and where the extremes are."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..memory.buffer import MlxBuffer
from .axes import Axis, Rows
from .call import call

__all__ = ["argmax", "argmin", "cumsum", "sum"]


def sum(a: Any, axis: Axis = None, keepdims: bool = False, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The sum along axes, or of all.

    >>> fn.sum(np.float32([[1, 2], [3, 4]]), axis=0).numpy()
    array([4., 6.], dtype=float32)
    """
    with call(stream) as run:
        rows = Rows(run, "sum", run.put(a, "a"), axis)
        return rows.reduced(ops.row_sum(run.enc, rows.buffer), keepdims)


def cumsum(
    a: Any,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The running sum along an axis, or of the flattened array.

    >>> fn.cumsum(np.float32([1, 2, 3]), reverse=True, inclusive=False).numpy()
    array([5., 3., 0.], dtype=float32)
    """
    with call(stream) as run:
        x = run.put(a, "a")
        rows = Rows(run, "cumsum", x.reshape(x.size) if axis is None else x, axis)
        return rows.back(ops.cumsum(run.enc, rows.buffer, reverse=reverse, inclusive=inclusive))


def argmax(a: Any, axis: int | None = None, keepdims: bool = False, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Where the largest value is along an axis, or in the flattened array; the first of equals, or the first NaN.

    >>> fn.argmax(np.float32([[1, 5, 5], [7, 0, 1]]), axis=1).numpy()
    array([1, 0], dtype=uint32)
    """
    with call(stream) as run:
        rows = Rows(run, "argmax", run.put(a, "a"), axis)
        return rows.reduced(ops.argmax(run.enc, rows.buffer)[0], keepdims)


def argmin(a: Any, axis: int | None = None, keepdims: bool = False, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Where the smallest value is along an axis, or in the flattened array; the first of equals, or the first NaN.

    >>> fn.argmin(np.float32([[1, 5, 5], [7, 0, 1]])).numpy()
    array(4, dtype=uint32)
    """
    with call(stream) as run:
        rows = Rows(run, "argmin", run.put(a, "a"), axis)
        return rows.reduced(ops.argmin(run.enc, rows.buffer)[0], keepdims)
