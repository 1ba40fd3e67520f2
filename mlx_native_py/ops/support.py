"""Helpers for ops: kernels by name, result buffers, and checks of types and shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..dtypes import DType
from ..encoder import Encoder
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from ..pipelines.function_constants import Constants
from ..pipelines.pipeline import Pipeline
from .op import FLOATS

__all__ = ["SIMD", "check_dtype", "check_shape", "kernel", "one_dtype", "result", "rows_of", "shown"]

SIMD = 32
"""Threads per simdgroup, on every device."""


def kernel(enc: Encoder, family: str, name: str, constants: Constants | None = None) -> Pipeline:
    """The kernel `name` of `kernels/<family>.metal`."""
    kernels = enc.device.kernels
    return kernels.get_pipeline(name, constants, library=kernels.shipped(family))


def result(enc: Encoder, out: MlxBuffer | None, shape: Sequence[int], dtype: DType) -> MlxBuffer:
    """`out` after checking its type and shape, or a new buffer."""
    if out is None:
        return enc.empty(tuple(shape), dtype)
    check_dtype("out", out, (dtype,))
    check_shape("out", out, shape)
    return out


def check_dtype(name: str, buffer: MlxBuffer, allowed: Sequence[DType] = FLOATS) -> None:
    if buffer.dtype not in allowed:
        raise InvalidArgument(f"{name} is {shown(buffer)}, expected {' or '.join(map(str, allowed))}")


def one_dtype(allowed: Sequence[DType] = FLOATS, **buffers: MlxBuffer | None) -> DType:
    """The common element type of the buffers; None is skipped."""
    given = {name: buffer for name, buffer in buffers.items() if buffer is not None}
    first, *others = given.items()
    check_dtype(*first, allowed)
    for name, buffer in others:
        if buffer.dtype is not first[1].dtype:
            raise InvalidArgument(
                f"{name} is {shown(buffer)} and {first[0]} is {shown(first[1])}; cast one to the other's type"
            )
    return first[1].dtype


def check_shape(name: str, buffer: MlxBuffer, expected: Sequence[int], why: str = "") -> None:
    if buffer.shape != tuple(expected):
        reason = f" ({why})" if why else ""
        raise InvalidArgument(f"{name} is {shown(buffer)}, expected shape {list(expected)}{reason}")


def rows_of(name: str, buffer: MlxBuffer) -> tuple[int, int]:
    """A buffer as rows along its last axis: their number and length."""
    if not buffer.shape:
        raise InvalidArgument(f"{name} is {shown(buffer)}, expected at least one axis")
    return math.prod(buffer.shape[:-1]), buffer.shape[-1]


def shown(value: Any) -> str:
    """A buffer in an error message: type and shape; other values by repr."""
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, MlxBuffer) else repr(value)
