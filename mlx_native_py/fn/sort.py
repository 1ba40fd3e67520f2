"""Values in order."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..memory.buffer import MlxBuffer
from .axes import Rows
from .call import Call, call

__all__ = ["argsort", "sort", "top_k", "topk"]


def sort(a: Any, axis: int | None = -1, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The values along an axis, or of the flattened array, from the smallest to the largest, NaN last.

    >>> fn.sort(np.float32([3, 1, 2])).numpy()
    array([1., 2., 3.], dtype=float32)
    """
    with call(stream) as run:
        rows = _rows(run, "sort", a, axis)
        return rows.back(ops.sort(run.enc, rows.buffer))


def argsort(a: Any, axis: int | None = -1, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The indices that sort along an axis, or the flattened array; equals keep their order, NaN goes last.

    >>> fn.argsort(np.float32([3, 1, 2])).numpy()
    array([1, 2, 0], dtype=uint32)
    """
    with call(stream) as run:
        rows = _rows(run, "argsort", a, axis)
        return rows.back(ops.argsort(run.enc, rows.buffer))


def topk(a: Any, k: int, axis: int | None = -1, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The k largest values along an axis, or of the flattened array, the largest first.

    >>> fn.topk(np.float32([3, 9, 2, 7]), 2).numpy()
    array([9., 7.], dtype=float32)
    """
    return top_k(a, k, axis, stream=stream)[0]


def top_k(a: Any, k: int, axis: int | None = -1, *, stream: MlxDevice | None = None) -> tuple[MlxBuffer, MlxBuffer]:
    """The k largest values along an axis, the largest first, and their indices.

    >>> values, indices = fn.top_k(np.float32([3, 9, 2, 7]), 2)
    >>> indices.numpy()
    array([1, 3], dtype=uint32)
    """
    with call(stream) as run:
        rows = _rows(run, "top_k", a, axis)
        values, indices = ops.top_k(run.enc, rows.buffer, k)
        return rows.back(values), rows.back(indices)


def _rows(run: Call, name: str, a: Any, axis: int | None) -> Rows:
    x = run.put(a, "a")
    return Rows(run, name, x.reshape(x.size) if axis is None else x, axis)
