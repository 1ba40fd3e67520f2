"""Element by element, with broadcasting: sums, products, casts, fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ... import ops
from ...device import MlxDevice
from ...dtypes import DType, DTypeLike
from ...encoder import Encoder
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ...ops.strides import contiguous, strided_copy
from ..call import Array, FunctionCall, call

__all__ = ["add", "astype", "broadcast_to", "full", "multiply"]


def add(a: Array, b: Array, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The sum of two arrays, or of an array and a number; shapes broadcast."""
    with call(stream) as run:
        return _two(run, ops.add, a, b)


def multiply(a: Array, b: Array, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The product of two arrays, element by element, or of an array and a number; shapes broadcast.

    >>> fn.multiply(np.float32([[1, 2], [3, 4]]), np.float32([10, 20])).numpy()
    array([[10., 40.],
           [30., 80.]], dtype=float32)
    """
    with call(stream) as run:
        for one, other in ((a, b), (b, a)):
            if isinstance(other, (int, float)) and not isinstance(one, (int, float)):
                return ops.scalar_mul(run.enc, run.put(one, "a"), other)
        return _two(run, ops.mul, a, b)


def astype(a: Array, dtype: DTypeLike, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The elements in another type: f32, f16 or bf16."""
    with call(stream) as run:
        x = run.put(a, "a")
        return x if x.dtype is DType.of(dtype) else ops.cast(run.enc, x, dtype)


def full(
    shape: int | Sequence[int], vals: float, dtype: DTypeLike | None = None, *, stream: MlxDevice | None = None
) -> MlxBuffer:
    """An array of one value; f32 where no type is given."""
    with call(stream) as run:
        return ops.fill(run.enc, run.enc.device.empty(shape, DType.of(dtype or "f32")), vals)


def broadcast_to(a: Array, shape: Sequence[int], *, stream: MlxDevice | None = None) -> MlxBuffer:
    """A copy whose axes of one element are repeated, and new ones put in front, so that it has `shape`."""
    with call(stream) as run:
        return _broadcast(run, run.put(a, "a"), tuple(shape))


def _two(run: FunctionCall, op: Callable[[Encoder, MlxBuffer, MlxBuffer], MlxBuffer], a: Array, b: Array) -> MlxBuffer:
    """The op on buffers of one shape, or of shapes that it repeats by itself; a number takes its partner's type."""
    if isinstance(a, (int, float)):
        a, b = b, a
    left = run.put(a, "a")
    right = run.put(np.full(1, b).astype(left.dtype.numpy) if isinstance(b, (int, float)) else b, "b")
    if left.size < right.size:
        left, right = right, left
    if right.size > 1 and left.shape[-right.ndim :] != right.shape:
        try:
            shape = np.broadcast_shapes(left.shape, right.shape)
        except ValueError:
            raise InvalidArgument(f"shapes {left.shape} and {right.shape} do not broadcast") from None
        left, right = _broadcast(run, left, shape), _broadcast(run, right, shape)
    return op(run.enc, left, right)


def _broadcast(run: FunctionCall, x: MlxBuffer, shape: tuple[int, ...]) -> MlxBuffer:
    if x.shape == shape:
        return x
    old = (1,) * (len(shape) - x.ndim) + x.shape
    if len(old) != len(shape) or any(n not in (1, m) for n, m in zip(old, shape, strict=True)):
        raise InvalidArgument(f"{x.shape} cannot be broadcast to {shape}")
    steps = [0 if n == 1 else step for n, step in zip(old, contiguous(old), strict=True)]
    out = run.enc.device.empty(shape, x.dtype)
    return strided_copy(run.enc, x, out, list(zip(shape, steps, contiguous(shape), strict=True)))
