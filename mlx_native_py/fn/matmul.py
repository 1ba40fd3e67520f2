"""Products of dense matrices."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .call import call

__all__ = ["addmm", "matmul", "matmul_id"]


def matmul(a: Any, b: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The product of two matrices, or of batches of them; a vector is a row on the left and a column on the right.

    >>> fn.matmul(np.float32([[1, 2], [3, 4]]), np.float32([10, 1])).numpy()
    array([12., 34.], dtype=float32)
    """
    with call(stream) as run:
        left, right, axes = _matrices(run.put(a, "a"), run.put(b, "b"))
        product = ops.matmul(run.enc, left, right)
    return _without(product, axes)


def addmm(
    c: Any, a: Any, b: Any, alpha: float = 1.0, beta: float = 1.0, *, stream: MlxDevice | None = None
) -> MlxBuffer:
    """alpha * (a @ b) + beta * c; c has any shape that broadcasts to the product's.

    >>> fn.addmm(np.float32([1, 2]), np.eye(2, dtype="f4"), np.eye(2, dtype="f4"), beta=10.0).numpy()
    array([[11., 20.],
           [10., 21.]], dtype=float32)
    """
    with call(stream) as run:
        left, right, axes = _matrices(run.put(a, "a"), run.put(b, "b"))
        added = run.put(c, "c")
        if axes == (-1,) and added.ndim:
            added = added.reshape(*added.shape, 1)
        product = ops.addmm(run.enc, added, left, right, alpha=alpha, beta=beta)
    return _without(product, axes)


def matmul_id(x: Any, w: Any, ids: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Each row of x by the weights of its experts: w is [experts, n, k], ids is u32 [..., top_k].

    >>> experts = np.float32([[[1, 0], [0, 1]], [[1, 1], [1, 1]]])
    >>> fn.matmul_id(np.float32([[1, 2]]), experts, np.uint32([[1, 0]])).numpy()
    array([[[3., 3.],
            [1., 2.]]], dtype=float32)
    """
    with call(stream) as run:
        return ops.matmul_id(run.enc, run.put(x, "x"), run.put(w, "w"), run.put(ids, "ids"))  # type: ignore[no-any-return]


def _matrices(a: MlxBuffer, b: MlxBuffer) -> tuple[MlxBuffer, MlxBuffer, tuple[int, ...]]:
    """Both with two axes at least, and the axes that the result has too many."""
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
