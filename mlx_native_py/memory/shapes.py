"""Checks of lengths and shapes given by callers."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from ..dtypes import DType
from ..errors import InvalidArgument

__all__ = ["as_shape", "exact_layout", "whole"]

_MOST_AXES = 64  # numpy's


def whole(value: Any, what: str, least: int = 0) -> int:
    """`value` as an int of at least `least`; floats and bools raise.

    >>> whole(8, "byte_len"), whole(0, "byte_len", 1)
    Traceback (most recent call last):
    mlx_native_py.errors.InvalidArgument: byte_len is 0, expected at least 1
    """
    if type(value) is int and value >= least:
        return value
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgument(f"{what} is {value!r}, expected a whole number") from None
    if isinstance(value, bool):
        raise InvalidArgument(f"{what} is {value!r}, expected a whole number")
    if number < least:
        raise InvalidArgument(f"{what} is {number}, expected at least {least}")
    return number


def as_shape(shape: int | Sequence[int]) -> tuple[tuple[int, ...], int]:
    """A shape as a tuple, and its number of elements; raises on empty axes, since Metal has no empty buffers.

    >>> as_shape([2, 3]), as_shape(5), as_shape(())
    (((2, 3), 6), ((5,), 5), ((), 1))
    """
    given: Any = shape
    if type(given) is tuple and len(given) <= _MOST_AXES and {*map(type, given)} <= {int} and min(given, default=1) > 0:
        return given, math.prod(given)
    try:
        axes = tuple(given)
    except TypeError:
        axes = (given,)
    if len(axes) > _MOST_AXES:
        raise InvalidArgument(f"a shape of {len(axes)} axes, expected at most {_MOST_AXES}")
    lengths = tuple(whole(axis, f"axis {i} of shape {axes}", 1) for i, axis in enumerate(axes))
    return lengths, math.prod(lengths)


def exact_layout(byte_len: int, dtype: Any, shape: int | Sequence[int]) -> tuple[int, DType, tuple[int, ...]]:
    """A byte length, element type and shape that agree with each other."""
    nbytes, kind = whole(byte_len, "byte_len", 1), DType.of(dtype)
    axes, count = as_shape(shape)
    if nbytes != count * kind.size:
        raise InvalidArgument(f"byte_len is {nbytes}, but {kind}{list(axes)} takes {count * kind.size} bytes")
    return nbytes, kind, axes
