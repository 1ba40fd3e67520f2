"""Strided copies, the basis of transposes, slices and concatenation."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from numbers import Integral

from ..dtypes import DType
from ..encoder import Encoder, Out
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .support import SIMD, kernel, shown

__all__ = ["as_bits", "axis_of", "contiguous", "parts_of", "strided_copy"]

_BITS = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}
_PARTS = 4  # elements per thread, if the row is a multiple of that many simdgroups
_AXES = 4  # axes that the kernel takes
_LONGEST = 1 << 31  # limit for the length of merged axes

Axis = tuple[int, int, int]
"""Count, input stride and output stride."""


def as_bits(buffer: MlxBuffer) -> MlxBuffer:
    """The same elements as unsigned integers of their size, since copies need no other type."""
    bits = _BITS[buffer.dtype.size]
    return buffer if buffer.dtype is bits else buffer.view(bits)


def axis_of(buffer: MlxBuffer, axis: int) -> int:
    """A non-negative axis."""
    if not isinstance(axis, Integral) or not -buffer.ndim <= axis < buffer.ndim:
        raise InvalidArgument(f"axis is {axis}, expected one of the {buffer.ndim} axes of {shown(buffer)}")
    return axis % buffer.ndim


def parts_of(*widths: int) -> int:
    """How many elements of such rows a thread copies."""
    return 1 if any(width % (_PARTS * SIMD) for width in widths) else _PARTS


def contiguous(shape: Sequence[int]) -> list[int]:
    """Row-major strides, in elements."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def strided_copy(
    enc: Encoder, x: MlxBuffer, out: MlxBuffer, axes: Sequence[Axis], starts: tuple[int, int] = (0, 0)
) -> MlxBuffer:
    """Copies elements along `axes`, innermost last, from `x` to `out`.

    Elements of `out` outside the axes keep their values.
    """
    source, target = as_bits(x), as_bits(out)
    written = Out(target) if math.prod(count for count, _, _ in axes) >= out.size else target
    outer, inner = _joined(axes)
    side_by_side = inner[-1][1:] == (1, 1)
    if side_by_side:
        inner = [*sorted(inner[:-1], key=_by_source), inner[-1]]
    parts = parts_of(inner[-1][0]) if side_by_side else 1
    constants: dict[int | str, int] = {"SIDE_BY_SIDE": side_by_side, "PARTS": parts}
    pipeline = kernel(enc, "layout", f"strided_copy_{8 * x.dtype.size}", constants)
    for start_in, start_out in _places(outer, starts):
        counts, strides_in, strides_out = zip(*inner, strict=True)
        place = struct.pack("4I10q", *counts, *strides_in, *strides_out, start_in, start_out)
        enc.dispatch(pipeline, source, written, place, threads=(counts[3] // parts, counts[2], counts[1] * counts[0]))
    return out


def _by_source(axis: Axis) -> tuple[bool, int]:
    """Sort key for reading memory in order: loads stall, stores do not."""
    return axis[0] > 1, -abs(axis[1])


def _joined(axes: Sequence[Axis]) -> tuple[list[Axis], list[Axis]]:
    """Merges axes where possible; returns those that need a launch per step, and the kernel's four."""
    merged: list[Axis] = []
    for count, step_in, step_out in axes:
        if count == 1:
            continue
        if merged:
            above, above_in, above_out = merged[-1]
            follows = (above_in, above_out) == (count * step_in, count * step_out)
            if follows and above * count < _LONGEST:
                merged[-1] = (above * count, step_in, step_out)
                continue
        merged.append((count, step_in, step_out))
    missing = max(0, _AXES - len(merged))
    merged = [(1, 0, 0)] * missing + merged
    return merged[:-_AXES], merged[-_AXES:]


def _places(outer: Sequence[Axis], starts: tuple[int, int]) -> list[tuple[int, int]]:
    places = [starts]
    for count, step_in, step_out in outer:
        places = [(a + step * step_in, b + step * step_out) for a, b in places for step in range(count)]
    return places
