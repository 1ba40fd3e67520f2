"""Matrix products: matmul, addmm, and gathered products with quantised weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ... import ops
from ...device import MlxDevice
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer, as_array
from ..call import Array, call

__all__ = ["addmm", "gather_qmm", "matmul"]


def matmul(a: Array, b: Array, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The product of two matrices or batches of them; a vector is a row on the left and a column on the right.

    >>> fn.matmul(np.float32([[1, 2], [3, 4]]), np.float32([10, 1])).numpy()
    array([12., 34.], dtype=float32)
    """
    with call(stream, a, b) as run:
        left, right, axes = _matrices(run.put(a, "a"), run.put(b, "b"))
        product = ops.matmul(run.enc, left, right)
    return _without(product, axes)


def addmm(
    c: Array, a: Array, b: Array, alpha: float = 1.0, beta: float = 1.0, *, stream: MlxDevice | None = None
) -> MlxBuffer:
    """alpha * (a @ b) + beta * c; c broadcasts to the product."""
    with call(stream, c, a, b) as run:
        left, right, axes = _matrices(run.put(a, "a"), run.put(b, "b"))
        added = run.put(c, "c")
        if axes == (-1,) and added.ndim:
            added = added.reshape(*added.shape, 1)
        product = ops.addmm(run.enc, added, left, right, alpha=alpha, beta=beta)
    return _without(product, axes)


def gather_qmm(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array | None = None,
    lhs_indices: Array | None = None,
    rhs_indices: Array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    sorted_indices: bool = False,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Products of x[lhs] and packed weights w[rhs], selected by indices that broadcast."""
    with call(stream, x, w, scales, biases, lhs_indices, rhs_indices) as run:
        rows, words = run.put(x, "x"), run.put(w, "w")
        _check_gather(rows, words, transpose)
        *batch, m, k = rows.shape
        left, right = np.broadcast_arrays(_indices(lhs_indices, batch), _indices(rhs_indices, words.shape[:-2]))
        matrices = rows.reshape(rows.size // (m * k), m * k)
        chosen = ops.gather(run.enc, matrices, run.put(left.reshape(-1), "lhs_indices"))
        product = ops.quantized_matmul_id(
            run.enc,
            chosen.reshape(chosen.size // k, k),
            _experts(words),
            _experts(run.put(scales, "scales")),
            None if biases is None else _experts(run.put(biases, "biases")),
            run.put(np.repeat(right.reshape(-1), m), "rhs_indices"),
            group_size=group_size,
            bits=bits,
            mode=mode,
        )
        return product.reshape(*right.shape, m, product.shape[-1])


def _check_gather(rows: MlxBuffer, words: MlxBuffer, transpose: bool) -> None:
    if not transpose:
        raise InvalidArgument("gather_qmm: transpose is False; weights chosen by index are taken as w.T only")
    if rows.ndim < 2 or words.ndim < 3:
        raise InvalidArgument(
            f"gather_qmm: x has shape {list(rows.shape)} and w {list(words.shape)}, expected [..., m, k] and "
            "[experts, n, packed k]"
        )


def _matrices(a: MlxBuffer, b: MlxBuffer) -> tuple[MlxBuffer, MlxBuffer, tuple[int, ...]]:
    """Both with at least two axes, and the axes to remove from the result."""
    if not a.shape or not b.shape:
        raise InvalidArgument(f"matmul: shapes {list(a.shape)} and {list(b.shape)}, expected at least one axis each")
    axes = (-2,) * (a.ndim == 1) + (-1,) * (b.ndim == 1)
    return (
        a.reshape(1, a.size) if a.ndim == 1 else a,
        b.reshape(b.size, 1) if b.ndim == 1 else b,
        axes,
    )


def _without(buffer: MlxBuffer, axes: tuple[int, ...]) -> MlxBuffer:
    if not axes:
        return buffer
    kept = [size for axis, size in enumerate(buffer.shape) if axis - buffer.ndim not in axes]
    return buffer.reshape(kept)


def _experts(buffer: MlxBuffer) -> MlxBuffer:
    """All axes before the matrix merged into one."""
    return buffer.reshape(prod(buffer.shape[:-2]), *buffer.shape[-2:])


def _indices(given: Array | None, axes: Sequence[int]) -> np.ndarray[Any, Any]:
    if given is None:
        return np.arange(prod(axes), dtype=np.uint32).reshape(axes)
    return as_array(given).astype(np.uint32)
