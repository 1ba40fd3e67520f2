"""Rows by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device import MlxDevice
from ..dtypes import DType
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer, as_array
from ..ops import indexing, layout
from .call import Call, call

__all__ = ["embedding", "quantized_embedding", "take"]


def take(a: Any, indices: Any, axis: int | None = None, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Elements of an axis by their numbers; without an axis those of the whole array. Zeros where there is no such one.

    >>> fn.take(np.float32([[1, 2], [3, 4], [5, 6]]), [2, 0, -1], axis=0).numpy()
    array([[5., 6.],
           [1., 2.],
           [5., 6.]], dtype=float32)
    """
    with call(stream) as run:
        x, ids = run.put(a, "a"), _ids(run, indices, "indices")
        if axis is None:
            return indexing.gather(run.enc, x.reshape(x.size), ids)
        at = axis % x.ndim if -x.ndim <= axis < x.ndim else _refuse(axis, x)
        if at == 0:
            return indexing.gather(run.enc, x, ids)
        rest = [other for other in range(x.ndim) if other != at]
        found = indexing.gather(run.enc, layout.transpose(run.enc, x, [at, *rest]), ids)
        axes = list(range(ids.ndim, found.ndim))
        return layout.transpose(run.enc, found, [*axes[:at], *range(ids.ndim), *axes[at:]])


def embedding(ids: Any, table: Any, *, scale: float = 1.0, stream: MlxDevice | None = None) -> MlxBuffer:
    """Rows of a table by ids, times a number; zeros where there is no such row.

    >>> fn.embedding([1, 0], np.float32([[1, 2], [3, 4]]), scale=10.0).numpy()
    array([[30., 40.],
           [10., 20.]], dtype=float32)
    """
    with call(stream) as run:
        return indexing.embedding(run.enc, _ids(run, ids, "ids"), run.put(table, "table"), scale=scale)


def quantized_embedding(
    ids: Any,
    w: Any,
    scales: Any,
    biases: Any,
    *,
    group_size: int = 64,
    bits: int = 4,
    scale: float = 1.0,
    dtype: Any = None,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Rows of a table that `quantize` packed, by ids; zeros where there is no such row.

    >>> w, ones = np.full((2, 4), 0x76543210, np.uint32), np.ones((2, 1), np.float32)
    >>> fn.quantized_embedding([1], w, ones, ones, group_size=32).numpy()[0, :8]
    array([1., 2., 3., 4., 5., 6., 7., 8.], dtype=float32)
    """
    with call(stream) as run:
        parts = [run.put(each, name) for each, name in ((w, "w"), (scales, "scales"), (biases, "biases"))]
        to = None if dtype is None else DType.of(dtype)
        options: dict[str, Any] = {"group_size": group_size, "bits": bits, "scale": scale, "dtype": to}
        return indexing.quantized_embedding(run.enc, _ids(run, ids, "ids"), *parts, **options)


def _ids(run: Call, given: Any, name: str) -> MlxBuffer:
    """Numbers of rows as the kernels take them; numpy's usual int64 too, as long as they are small."""
    if isinstance(given, MlxBuffer):
        return given
    array = np.asarray(given) if isinstance(given, (int, list, tuple)) else as_array(given)
    if array.dtype.kind not in "iu":
        raise InvalidArgument(f"{name} is an array of {array.dtype}, expected whole numbers")
    if array.dtype not in (np.uint32, np.int32):
        if array.size and not -(2**31) <= array.min() <= array.max() < 2**31:
            raise InvalidArgument(f"{name} has numbers from {array.min()} to {array.max()}, expected at most 32 bits")
        array = array.astype(np.int32)
    return run.put(array, name)


def _refuse(axis: int, x: MlxBuffer) -> int:
    raise InvalidArgument(f"axis is {axis}, expected one of the {x.ndim} axes of {x!r}")
