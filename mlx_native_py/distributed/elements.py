"""Arrays as MPI takes them: memory of a buffer or array, and the type it is reduced in."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from ..dtypes import DType
from ..errors import InvalidArgument
from ..memory.buffer import Array, MlxBuffer
from .mpi import mpi
from .rendezvous import Call

__all__ = ["ArrayLike", "call_on", "empty_like", "raw", "readable", "reduced_as", "writable"]

ArrayLike = TypeVar("ArrayLike", Array, MlxBuffer)
_WIDENED: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float16): np.dtype(np.float32),
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.float32),
    np.dtype(np.uint8): np.dtype(np.uint32),
    np.dtype(np.uint16): np.dtype(np.uint32),
    np.dtype(np.int8): np.dtype(np.int32),
    np.dtype(np.int16): np.dtype(np.int32),
    np.dtype(np.bool_): np.dtype(np.uint32),
}


@lru_cache(maxsize=4096)
def call_on(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], detail: str = "") -> Call:
    """A collective on this type and shape, as all ranks must call it."""
    return Call(name, f"{dtype}{list(shape)}{detail}")


def readable(x: ArrayLike) -> Array:
    """The elements in row-major order, after pending writes; copies only strided arrays."""
    if isinstance(x, MlxBuffer):
        x.allocation.wait()
        return x.numpy()
    if not isinstance(x, np.ndarray):
        raise InvalidArgument(f"collectives take buffers and numpy arrays, not {type(x).__name__}")
    _require_known(x.dtype)
    return np.ascontiguousarray(x)


def writable(out: ArrayLike, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The memory of `out`, which must have this type and shape."""
    if isinstance(out, MlxBuffer):
        if out.readonly:
            raise InvalidArgument(f"out is {out!r}, which cannot be written to")
        out.allocation.wait()
        array = out.numpy()
    elif isinstance(out, np.ndarray) and out.flags.writeable:
        array = out
    else:
        raise InvalidArgument(f"out is {out!r}, expected a buffer or an array that can be written to")
    if (array.dtype, array.shape) != (dtype, shape):
        raise InvalidArgument(f"out is {array.dtype}{list(array.shape)}, expected {dtype}{list(shape)}")
    return array


def empty_like(x: ArrayLike, shape: tuple[int, ...]) -> ArrayLike:
    """Memory for a result: a buffer of the same device, or an array."""
    if isinstance(x, MlxBuffer):
        buffer: MlxBuffer = x.allocation.residency.device().empty(shape, x.dtype)
        return buffer
    return np.empty(shape, x.dtype)


def reduced_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which MPI reduces: 16-bit floats are added in f32 and rounded once. Small integers are added in 32
    bits, because Open MPI saturates them instead of wrapping."""
    return _WIDENED.get(dtype, dtype)


def raw(array: Array) -> list[Any]:
    """An array as bytes, for collectives that only move data, since MPI has no bf16."""
    return [array.reshape(-1).view(np.uint8), mpi().BYTE]


def _require_known(dtype: np.dtype[Any]) -> None:
    if dtype != np.float64:
        DType.of(dtype)
