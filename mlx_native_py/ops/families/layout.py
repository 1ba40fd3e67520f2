"""Layout ops: copies, transposes, repeats, slices, concatenation, and the split of fused q, k and v."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dtypes import DType
from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..op import Output, Outputs, op
from ..strides import as_bits, axis_of, contiguous, parts_of, strided_copy
from ..support import kernel, result, rows_of, shown

__all__ = [
    "concat",
    "copy",
    "permute_021",
    "qkv_split",
    "repeat",
    "slice",
    "slice_update",
    "transpose",
    "transpose_2d",
    "transpose_last2",
]

ANY = tuple(DType)
_TILE, _TILE_ROWS = 32, 8
_MAX_INPUTS = 4  # inputs per concat kernel
_MIN_TILED = 8  # a shorter axis leaves tiles mostly empty


@op(
    "out[i, j, ...] = x[offset + i * strides[0] + j * strides[1] + ...]",
    ANY,
    fn=("contiguous", "as_strided", "broadcast_to"),
)
def copy(
    enc: Encoder,
    x: MlxBuffer,
    out: Output = None,
    *,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    offset: int = 0,
) -> MlxBuffer:
    """A copy; with `shape` and `strides` (in elements), a strided one."""
    axes = tuple(x.shape if shape is None else shape)
    steps = contiguous(axes) if strides is None else list(strides)
    if len(steps) != len(axes) or min(axes, default=1) < 1:
        raise InvalidArgument(f"shape is {list(axes)} and strides {steps}, expected a stride for each axis")
    ends = [(count - 1) * step for count, step in zip(axes, steps, strict=True)]
    least, most = offset + sum(min(end, 0) for end in ends), offset + sum(max(end, 0) for end in ends)
    if least < 0 or most >= x.size:
        raise InvalidArgument(f"elements {least} to {most} of x, which is {shown(x)}, are out of range")
    out = result(enc, out, axes, x.dtype)
    return strided_copy(enc, x, out, list(zip(axes, steps, contiguous(axes), strict=True)), (offset, 0))


@op("out[..., i, ...] = x[..., j, ...] with axes in the order given", ANY, fn=("transpose", "swapaxes"))
def transpose(enc: Encoder, x: MlxBuffer, axes: Sequence[int] | None = None, out: Output = None) -> MlxBuffer:
    """Permutes the axes (default: reverses them); axis i of the result is axis `axes[i]` of x."""
    order = list(range(x.ndim))[::-1] if axes is None else [axis_of(x, axis) for axis in axes]
    if sorted(order) != list(range(x.ndim)):
        raise InvalidArgument(f"axes is {axes}, expected each of the {x.ndim} axes of {shown(x)} once")
    out = result(enc, out, [x.shape[axis] for axis in order], x.dtype)
    swapped = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    if x.ndim >= 2 and order == swapped and min(x.shape[-2:]) >= _MIN_TILED:
        return _tiles(enc, x, out)
    steps = contiguous(x.shape)
    return strided_copy(
        enc, x, out, list(zip(out.shape, [steps[axis] for axis in order], contiguous(out.shape), strict=True))
    )


@op("out[j, i] = x[i, j]", ANY)
def transpose_2d(enc: Encoder, x: MlxBuffer, out: Output = None) -> MlxBuffer:
    """Swaps rows and columns."""
    return transpose(enc, _ranked("transpose_2d", x, 2), (1, 0), out)


@op("out[j, i, k] = x[i, j, k]", ANY)
def permute_021(enc: Encoder, x: MlxBuffer, out: Output = None) -> MlxBuffer:
    """[tokens, heads, dims] to [heads, tokens, dims], or back."""
    return transpose(enc, _ranked("permute_021", x, 3), (1, 0, 2), out)


@op("out[i, k, j] = x[i, j, k]", ANY)
def transpose_last2(enc: Encoder, x: MlxBuffer, out: Output = None) -> MlxBuffer:
    """Swaps rows and columns of each matrix of a batch."""
    return transpose(enc, _ranked("transpose_last2", x, 3), (0, 2, 1), out)


@op("out[..., i, ...] = x[..., i // repeats, ...]; tiled: x[..., i % n, ...]", ANY, fn=("repeat", "tile"))
def repeat(
    enc: Encoder,
    x: MlxBuffer,
    repeats: int,
    *,
    axis: int = 0,
    tiled: bool = False,
    out: Output = None,
) -> MlxBuffer:
    """Repeats each element of an axis; `tiled` repeats the axis as a whole."""
    at = axis_of(x, axis)
    if repeats < 1:
        raise InvalidArgument(f"repeats is {repeats}, expected at least 1")
    before, count, after = math.prod(x.shape[:at]), x.shape[at], math.prod(x.shape[at + 1 :])
    out = result(enc, out, (*x.shape[:at], count * repeats, *x.shape[at + 1 :]), x.dtype)
    again, each = (repeats, 0, after), (count, after, after * repeats)
    if tiled:
        again, each = (repeats, 0, count * after), (count, after, after)
    inner = [again, each] if tiled else [each, again]
    return strided_copy(enc, x, out, [(before, count * after, count * repeats * after), *inner, (after, 1, 1)])


@op("out[i, j, ...] = x[start[0] + i * strides[0], start[1] + j * strides[1], ...]", ANY)
def slice(
    enc: Encoder,
    x: MlxBuffer,
    start: Sequence[int],
    stop: Sequence[int],
    strides: Sequence[int] | None = None,
    out: Output = None,
) -> MlxBuffer:
    """A range of each axis, from `start` to `stop`; negative values count from the end."""
    by = [1] * x.ndim if strides is None else list(strides)
    if not len(start) == len(stop) == len(by) == x.ndim or min(by, default=1) < 1:
        raise InvalidArgument(f"{start}, {stop}, {strides} of {shown(x)}, expected numbers for each axis")
    parts = [range(count)[a:b:c] for count, a, b, c in zip(x.shape, start, stop, by, strict=True)]
    if not all(parts):
        raise InvalidArgument(f"{list(start)} to {list(stop)} of {shown(x)} is empty")
    steps = contiguous(x.shape)
    out = result(enc, out, [len(part) for part in parts], x.dtype)
    taken = [step * part.step for step, part in zip(steps, parts, strict=True)]
    first = sum(step * part.start for step, part in zip(steps, parts, strict=True))
    return strided_copy(enc, x, out, list(zip(out.shape, taken, contiguous(out.shape), strict=True)), (first, 0))


@op("x[start[0] + i, start[1] + j, ...] = update[i, j, ...]", ANY)
def slice_update(enc: Encoder, x: MlxBuffer, update: MlxBuffer, start: Sequence[int]) -> MlxBuffer:
    """Writes a block into x in place, at `start`."""
    if update.dtype is not x.dtype or update.ndim != x.ndim or len(start) != x.ndim:
        raise InvalidArgument(f"update is {shown(update)} at {start}, expected a part of {shown(x)}")
    if any(a < 0 or a + n > most for a, n, most in zip(start, update.shape, x.shape, strict=True)):
        raise InvalidArgument(f"{shown(update)} at {list(start)} does not fit in {shown(x)}")
    steps = contiguous(x.shape)
    first = sum(step * a for step, a in zip(steps, start, strict=True))
    axes = list(zip(update.shape, contiguous(update.shape), steps, strict=True))
    return strided_copy(enc, update, x, axes, (0, first))


@op("out = [a | b | ...] along an axis", ANY, fn=("concatenate",))
def concat(enc: Encoder, buffers: Sequence[MlxBuffer], *, axis: int = 0, out: Output = None) -> MlxBuffer:
    """Concatenates buffers of one type along an axis; the other axes must match."""
    if not buffers:
        raise InvalidArgument("no buffers were given, expected at least one")
    first = buffers[0]
    at = axis_of(first, axis)
    for each in buffers[1:]:
        if each.dtype is not first.dtype or _without(each.shape, at) != _without(first.shape, at):
            raise InvalidArgument(
                f"{shown(each)} and {shown(first)}, expected one type and axes that agree, but for axis {at}"
            )
    shape = (*first.shape[:at], sum(each.shape[at] for each in buffers), *first.shape[at + 1 :])
    out = result(enc, out, shape, first.dtype)
    rows, after = math.prod(shape[:at]), math.prod(shape[at + 1 :])
    target, place = as_bits(out), 0
    for start in range(0, len(buffers), _MAX_INPUTS):
        group = list(buffers[start : start + _MAX_INPUTS])
        widths = [each.shape[at] * after for each in group]
        parts = [as_bits(each) for each in group + group[:1] * (_MAX_INPUTS - len(group))]
        padded = (*widths, *[0] * (_MAX_INPUTS - len(group)))
        each_takes = parts_of(*widths)
        pipeline = kernel(enc, "layout", f"concat_{8 * first.dtype.size}", {"PARTS": each_takes})
        grid = (max(widths) // each_takes, rows, len(group))
        enc.dispatch(pipeline, *parts, Out(target), padded, shape[at] * after, place, threads=grid)
        place += sum(widths)
    return out


@op("q, k, v = x[..., :a], x[..., a:a + b], x[..., a + b:]", ANY)
def qkv_split(
    enc: Encoder, x: MlxBuffer, widths: Sequence[int], out: Outputs = None
) -> tuple[MlxBuffer, MlxBuffer, MlxBuffer]:
    """Splits rows of fused queries, keys and values; `widths` are the three widths."""
    rows, width = rows_of("x", x)
    if len(widths) != 3 or min(widths) < 1 or sum(widths) != width:
        raise InvalidArgument(f"widths is {list(widths)}, expected three that add up to {width}")
    given = (None, None, None) if out is None else tuple(out)
    q, k, v = (result(enc, each, (*x.shape[:-1], w), x.dtype) for each, w in zip(given, widths, strict=True))
    pipeline = kernel(enc, "layout", f"qkv_split_{8 * x.dtype.size}")
    parts = [Out(as_bits(each)) for each in (q, k, v)]
    enc.dispatch(pipeline, as_bits(x), *parts, tuple(widths), threads=(width, rows))
    return q, k, v


def _tiles(enc: Encoder, x: MlxBuffer, out: MlxBuffer) -> MlxBuffer:
    batch, (rows, columns) = math.prod(x.shape[:-2]), x.shape[-2:]
    pipeline = kernel(enc, "layout", f"transpose_tiles_{8 * x.dtype.size}")
    grid = (-(-columns // _TILE), -(-rows // _TILE), batch)
    enc.dispatch(pipeline, as_bits(x), Out(as_bits(out)), rows, columns, threadgroups=grid, group=(_TILE, _TILE_ROWS))
    return out


def _ranked(name: str, x: MlxBuffer, axes: int) -> MlxBuffer:
    if x.ndim != axes:
        raise InvalidArgument(f"x is {shown(x)}, expected {axes} axes")
    return x


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])
