"""Functions along one or several axes: softmax, reductions, running sums, sorting."""

from __future__ import annotations

from ... import ops
from ...device import MlxDevice
from ...memory.buffer import MlxBuffer
from ..call import Array, FunctionCall, call
from .axes import Axis, AxisRows

__all__ = ["argmax", "argmin", "argsort", "cumsum", "logsumexp", "softmax", "sort", "sum", "top_k", "topk"]


def softmax(a: Array, axis: Axis = None, *, precise: bool = False, stream: MlxDevice | None = None) -> MlxBuffer:
    """exp(a) / sum(exp(a)) along axes, or over all; always summed in float32, whatever `precise` says."""
    with call(stream, a) as run:
        rows = AxisRows(run, "softmax", run.put(a, "a"), axis)
        return rows.back(ops.softmax(run.enc, rows.buffer))


def logsumexp(a: Array, axis: Axis = None, keepdims: bool = False, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """log(sum(exp(a))) along axes, or over all."""
    with call(stream, a) as run:
        rows = AxisRows(run, "logsumexp", run.put(a, "a"), axis)
        return rows.reduced(ops.logsumexp(run.enc, rows.buffer), keepdims)


def sum(a: Array, axis: Axis = None, keepdims: bool = False, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The sum along axes, or over all."""
    with call(stream, a) as run:
        rows = AxisRows(run, "sum", run.put(a, "a"), axis)
        return rows.reduced(ops.row_sum(run.enc, rows.buffer), keepdims)


def cumsum(
    a: Array,
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
    with call(stream, a) as run:
        x = run.put(a, "a")
        rows = AxisRows(run, "cumsum", x.reshape(x.size) if axis is None else x, axis)
        return rows.back(ops.cumsum(run.enc, rows.buffer, reverse=reverse, inclusive=inclusive))


def argmax(a: Array, axis: int | None = None, keepdims: bool = False, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The index of the largest value along an axis, or in the flattened array; ties give the first, and NaN wins."""
    with call(stream, a) as run:
        rows = AxisRows(run, "argmax", run.put(a, "a"), axis)
        return rows.reduced(ops.argmax(run.enc, rows.buffer)[0], keepdims)


def argmin(a: Array, axis: int | None = None, keepdims: bool = False, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The index of the smallest value along an axis, or in the flattened array; ties give the first, and NaN wins."""
    with call(stream, a) as run:
        rows = AxisRows(run, "argmin", run.put(a, "a"), axis)
        return rows.reduced(ops.argmin(run.enc, rows.buffer)[0], keepdims)


def sort(a: Array, axis: int | None = -1, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The values along an axis, or of the flattened array, in ascending order, NaN last."""
    with call(stream, a) as run:
        rows = _rows(run, "sort", a, axis)
        return rows.back(ops.sort(run.enc, rows.buffer))


def argsort(a: Array, axis: int | None = -1, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The indices that sort along an axis, or the flattened array; stable, NaN last."""
    with call(stream, a) as run:
        rows = _rows(run, "argsort", a, axis)
        return rows.back(ops.argsort(run.enc, rows.buffer))


def topk(a: Array, k: int, axis: int | None = -1, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The k largest values along an axis, or of the flattened array, in descending order."""
    return top_k(a, k, axis, stream=stream)[0]


def top_k(a: Array, k: int, axis: int | None = -1, *, stream: MlxDevice | None = None) -> tuple[MlxBuffer, MlxBuffer]:
    """The k largest values along an axis, in descending order, and their indices.

    >>> values, indices = fn.top_k(np.float32([3, 9, 2, 7]), 2)
    >>> indices.numpy()
    array([1, 3], dtype=uint32)
    """
    with call(stream, a) as run:
        rows = _rows(run, "top_k", a, axis)
        values, indices = ops.top_k(run.enc, rows.buffer, k)
        return rows.back(values), rows.back(indices)


def _rows(run: FunctionCall, name: str, a: Array, axis: int | None) -> AxisRows:
    x = run.put(a, "a")
    return AxisRows(run, name, x.reshape(x.size) if axis is None else x, axis)
