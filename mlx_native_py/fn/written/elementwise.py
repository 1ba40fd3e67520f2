"""Elementwise functions with broadcasting: arithmetic, casts and fills."""

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

__all__ = ["add", "astype", "broadcast_to", "divide", "full", "multiply", "subtract"]


def add(a: Array, b: Array, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The sum of two arrays, or of an array and a number; shapes broadcast."""
    with call(stream, a, b) as run:
        return _two(run, ops.add, a, b)


def multiply(a: Array, b: Array, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The elementwise product of two arrays, or of an array and a number; shapes broadcast.

    >>> fn.multiply(np.float32([[1, 2], [3, 4]]), np.float32([10, 20])).numpy()
    array([[10., 40.],
           [30., 80.]], dtype=float32)
    """
    with call(stream, a, b) as run:
        left, right = _pair(run, a, b)
        for one, other in ((left, b), (right, a)):
            if isinstance(other, (int, float)) and one.dtype.is_float:
                return ops.scalar_mul(run.enc, one, other)
        return _two(run, ops.mul, left, right)


def subtract(a: Array, b: Array, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The difference of two arrays, or of an array and a number; shapes broadcast.

    >>> fn.subtract(1, np.float32([[1, 2], [3, 4]])).numpy()
    array([[ 0., -1.],
           [-2., -3.]], dtype=float32)
    """
    with call(stream, a, b) as run:
        return _repeated(run, ops.sub, *_pair(run, a, b))


def divide(a: Array, b: Array, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The elementwise quotient of two arrays, or of an array and a number; shapes broadcast.

    Integers are divided in f32.

    >>> fn.divide(np.float32([[1, 2], [3, 4]]), np.float32([2, 4])).numpy()
    array([[0.5, 0.5],
           [1.5, 1. ]], dtype=float32)
    """
    with call(stream, a, b) as run:
        left, right = (_as_float(run, each, DType.F32) for each in _pair(run, a, b))
        return _repeated(run, ops.div, left, right)


def astype(a: Array, dtype: DTypeLike, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Converts the elements: floats with a kernel, other types on the CPU, as numpy does."""
    with call(stream, a) as run:
        x = run.put(a, "a")
        to = DType.of(dtype)
        if x.dtype.is_float and to.is_float:
            return x if x.dtype is to else ops.cast(run.enc, x, to)
        with np.errstate(all="ignore"):
            return run.enc.device.buffer(x.numpy().astype(to.numpy))


def full(
    shape: int | Sequence[int], vals: float, dtype: DTypeLike | None = None, *, stream: MlxDevice | None = None
) -> MlxBuffer:
    """An array filled with one value; f32 by default."""
    with call(stream) as run:
        return ops.fill(run.enc, run.enc.device.empty(shape, DType.of(dtype or "f32")), vals)


def broadcast_to(a: Array, shape: Sequence[int], *, stream: MlxDevice | None = None) -> MlxBuffer:
    """A copy broadcast to `shape`."""
    with call(stream, a) as run:
        return _broadcast(run, run.put(a, "a"), tuple(shape))


BinaryOp = Callable[[Encoder, MlxBuffer, MlxBuffer], MlxBuffer]


def _two(run: FunctionCall, op: BinaryOp, a: Array, b: Array) -> MlxBuffer:
    """A commutative op; the larger operand goes first."""
    left, right = _pair(run, a, b)
    return _repeated(run, op, *((right, left) if left.size < right.size else (left, right)))


def _pair(run: FunctionCall, a: Array, b: Array) -> tuple[MlxBuffer, MlxBuffer]:
    """Both as buffers of one type: a number takes the other's type, and integers become floats if the other is."""
    if isinstance(a, (int, float)):
        right, left = _with_number(run, run.put(b, "b"), a)
        return left, right
    left = run.put(a, "a")
    if isinstance(b, (int, float)):
        return _with_number(run, left, b)
    right = run.put(b, "b")
    if left.dtype.is_float != right.dtype.is_float:
        kind = left.dtype if left.dtype.is_float else right.dtype
        return _as_float(run, left, kind), _as_float(run, right, kind)
    return left, right


def _with_number(run: FunctionCall, x: MlxBuffer, number: float) -> tuple[MlxBuffer, MlxBuffer]:
    """A buffer and a number of its type; a fraction converts integers to f32."""
    if isinstance(number, float):
        x = _as_float(run, x, DType.F32)
    try:
        one = np.full(1, number, np.float64 if x.dtype.is_float else x.dtype.numpy)
    except OverflowError:
        raise InvalidArgument(f"{number} is no {x.dtype}") from None
    with np.errstate(over="ignore"):
        return x, run.put(one.astype(x.dtype.numpy), "b")


def _as_float(run: FunctionCall, x: MlxBuffer, kind: DType) -> MlxBuffer:
    """Integers converted to floats on the CPU; floats unchanged."""
    return x if x.dtype.is_float else run.enc.device.buffer(x.numpy().astype(kind.numpy))


def _repeated(run: FunctionCall, op: BinaryOp, left: MlxBuffer, right: MlxBuffer) -> MlxBuffer:
    """The op on buffers of one shape, or of shapes that it broadcasts itself."""
    if right.size > 1 and left.shape[-right.ndim :] != right.shape:
        try:
            shape = np.broadcast_shapes(left.shape, right.shape)
        except ValueError:
            shapes = f"{left.dtype}{list(left.shape)} and {right.dtype}{list(right.shape)}"
            raise InvalidArgument(f"{op.__name__}: {shapes} do not broadcast") from None
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
