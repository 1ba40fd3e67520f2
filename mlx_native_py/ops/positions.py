"""Token positions: how ops accept them and how kernels address them."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..dtypes import DType
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .support import check_dtype, check_shape, shown

__all__ = ["PositionLayout", "Positions", "axis_places", "sequence_places", "token_places", "token_shape"]

Positions = MlxBuffer | int
"""A buffer of u32 or i32, or the first position, from which they count up."""


class PositionLayout(NamedTuple):
    """Strides of a position buffer by sequence, axis and token, and the increment per token."""

    batch: int
    axis: int
    token: int
    step: int


def token_places(x: MlxBuffer, positions: Positions) -> tuple[MlxBuffer | bytes, PositionLayout, tuple[int, int, int]]:
    """Positions of x[tokens, heads, width], their layout, and x's shape."""
    shape = token_shape(x)
    if isinstance(positions, int):
        return struct.pack("<i", positions), PositionLayout(0, 0, 0, 1), shape
    check_dtype("positions", positions, (DType.U32, DType.I32))
    check_shape("positions", positions, shape[:1], "one per token")
    return positions, PositionLayout(0, 0, 1, 0), shape


def sequence_places(offset: Positions, batch: int) -> tuple[MlxBuffer | bytes, PositionLayout]:
    if isinstance(offset, int):
        return struct.pack("<i", offset), PositionLayout(0, 0, 0, 1)
    check_dtype("offset", offset, (DType.U32, DType.I32))
    if offset.size not in (1, batch):
        raise InvalidArgument(f"offset is {shown(offset)}, expected one element or {batch}, one per sequence")
    return offset, PositionLayout(int(offset.size > 1), 0, 0, 1)


def axis_places(positions: MlxBuffer, axes: int, tokens: int) -> tuple[MlxBuffer, PositionLayout]:
    check_dtype("positions", positions, (DType.U32, DType.I32))
    if len(positions.shape) != 2 or positions.shape[0] < axes or positions.shape[1] != tokens:
        raise InvalidArgument(f"positions is {shown(positions)}, expected shape [{axes} or more, {tokens}]")
    return positions, PositionLayout(0, tokens, 1, 0)


def token_shape(x: MlxBuffer) -> tuple[int, int, int]:
    if len(x.shape) != 3:
        raise InvalidArgument(f"x is {shown(x)}, expected [tokens, heads, width]")
    tokens, heads, width = x.shape
    return tokens, heads, width
