"""Rotary position embeddings: pairs of a head's values, turned by an angle that grows with the position."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..dtypes import DType
from ..encoder import CommandEncoder, Out
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .op import op
from .rope_tables import frequencies, section_axes, turn_table, vision_frequencies
from .support import check_dtype, check_shape, kernel, one_dtype, result, shown

__all__ = [
    "Places",
    "Positions",
    "checked_factors",
    "rope",
    "rope_2d",
    "rope_at",
    "rope_multi",
    "token_places",
    "turns",
]

Positions = MlxBuffer | int
"""A buffer of u32 or i32, or the first position, from which on they count up."""


# A thread finds the angle of a pair once for several heads, unless there are few tokens to share out.
_HEADS_EACH = 8
_MANY_TOKENS = 64


class Places(NamedTuple):
    """How to find a position in its buffer: elements from one sequence, axis and token to the next, and what each
    token adds."""

    batch: int
    axis: int
    token: int
    step: int


class _Heads(NamedTuple):
    """x as [batch, tokens, heads, width], wherever these lie in memory: elements from one to the next, and counts."""

    strides: tuple[int, int, int]
    batch: int
    heads: int
    tokens: int
    width: int


@op("(a, b) -> (a cos - b sin, a sin + b cos), angle = (offset + t) * scale * base^(-2i/dims) / factor")
def rope(
    enc: CommandEncoder,
    x: MlxBuffer,
    *,
    dims: int | None = None,
    traditional: bool = False,
    base: float | None = 10000.0,
    scale: float = 1.0,
    offset: Positions = 0,
    factors: MlxBuffer | None = None,
    out: MlxBuffer | None = None,
) -> MlxBuffer:
    """RoPE over x[..., tokens, width]: pair i is (2i, 2i+1) if `traditional`, else (i, i + dims/2).

    `offset` is the first token's position, or a buffer with one per sequence, the first axis. `factors` divide the
    frequencies; with `base=None` they are all there is, and the frequencies their reciprocals.
    """
    if len(x.shape) < 2:
        raise InvalidArgument(f"rope: x is {shown(x)}, expected [..., tokens, width]")
    tokens, width = x.shape[-2:]
    batch = x.shape[0] if len(x.shape) > 2 else 1
    heads = x.size // (batch * tokens * width)
    place = _Heads((heads * tokens * width, tokens * width, width), batch, heads, tokens, width)
    table = turns("rope", dims, width, base, scale, factors is not None)
    where, places = _offsets(offset, batch)
    block = 2 if traditional else len(table) // 4
    return _launch(enc, "rope", x, out, place, where, places, table, block, factors=factors)


@op("rope of each token at its own position")
def rope_at(
    enc: CommandEncoder,
    x: MlxBuffer,
    positions: Positions,
    *,
    dims: int | None = None,
    traditional: bool = False,
    base: float | None = 10000.0,
    scale: float = 1.0,
    factors: MlxBuffer | None = None,
    out: MlxBuffer | None = None,
) -> MlxBuffer:
    """RoPE over x[tokens, heads, width], with a position per token; the options are those of `rope`."""
    where, places, (tokens, heads, width) = token_places("rope_at", x, positions)
    place = _Heads((x.size, width, heads * width), 1, heads, tokens, width)
    table = turns("rope_at", dims, width, base, scale, factors is not None)
    block = 2 if traditional else len(table) // 4
    return _launch(enc, "rope_at", x, out, place, where, places, table, block, factors=factors)


@op("rope whose pairs take their positions from different axes")
def rope_multi(
    enc: CommandEncoder,
    x: MlxBuffer,
    positions: MlxBuffer,
    *,
    sections: Sequence[int],
    mode: Literal["mrope", "imrope", "vision"] = "mrope",
    dims: int | None = None,
    base: float = 10000.0,
    out: MlxBuffer | None = None,
) -> MlxBuffer:
    """Multi-section RoPE over x[tokens, heads, width] with positions[axes, tokens]; pair i is (i, i + dims/2).

    `sections` are pairs per axis: in a row for "mrope", taking turns for "imrope"; "vision" has two sections that fill
    the head, and counts its frequencies anew in the second.
    """
    tokens, heads, width = _token_shape("rope_multi", x)
    pairs = _pairs("rope_multi", dims, width)
    axes = section_axes(mode, tuple(sections), pairs, width)
    steps = vision_frequencies(sections[0], pairs, base) if mode == "vision" else frequencies(pairs, base)
    where, places = _axes_places("rope_multi", positions, max(axes) + 1, tokens)
    place = _Heads((x.size, width, heads * width), 1, heads, tokens, width)
    return _launch(enc, "rope_multi", x, out, place, where, places, turn_table(steps), 2 * pairs, axes=axes)


@op("rope of a head's first half by positions[0] and of its second half by positions[1]")
def rope_2d(
    enc: CommandEncoder,
    x: MlxBuffer,
    positions: MlxBuffer,
    *,
    base: float = 10000.0,
    out: MlxBuffer | None = None,
) -> MlxBuffer:
    """RoPE of image patches: x[tokens, heads, width] with positions[2, tokens]; each half is a head of its own."""
    tokens, heads, width = _token_shape("rope_2d", x)
    if width % 4:
        raise InvalidArgument(f"rope_2d: x is {shown(x)}, expected a width that is a multiple of 4")
    steps = frequencies(width // 4, base) * 2
    axes = bytes(pair >= width // 4 for pair in range(width // 2))
    where, places = _axes_places("rope_2d", positions, 2, tokens)
    place = _Heads((x.size, width, heads * width), 1, heads, tokens, width)
    return _launch(enc, "rope_2d", x, out, place, where, places, turn_table(steps), width // 2, axes=axes)


def _launch(
    enc: CommandEncoder,
    name: str,
    x: MlxBuffer,
    out: MlxBuffer | None,
    place: _Heads,
    where: MlxBuffer | bytes,
    places: Places,
    table: bytes,
    block: int,
    *,
    axes: bytes | None = None,
    factors: MlxBuffer | None = None,
) -> MlxBuffer:
    dtype = one_dtype(name, x=x)
    out = result(enc, name, out, x.shape, dtype)
    pairs = len(table) // 8
    heads_each = min(place.heads, _HEADS_EACH) if place.tokens * place.batch >= _MANY_TOKENS else 1
    enc.dispatch(
        kernel(enc, "rope", f"rope_{dtype}"),
        x,
        where,
        checked_factors(name, factors, pairs),
        Out(out),
        table,
        bytes(pairs) if axes is None else axes,
        struct.pack("<3Q4I", *place.strides, place.heads, heads_each, pairs, block),
        struct.pack("<4I", *places),
        factors is not None,
        threads=(place.width - pairs, place.tokens, place.batch * -(-place.heads // heads_each)),
    )
    return out


def turns(op: str, dims: int | None, width: int, base: float | None, scale: float, divided: bool) -> bytes:
    """The table of a plain rope: what fraction of a turn each pair makes per position."""
    pairs = _pairs(op, dims, width)
    if base is None and not divided:
        raise InvalidArgument(f"{op}: base is None, so factors have to be given")
    if base is not None and not base > 0:
        raise InvalidArgument(f"{op}: base is {base!r}, expected a positive number")
    steps = (1.0,) * pairs if base is None else frequencies(pairs, base)
    return turn_table(steps, scale, divided)


def checked_factors(op: str, factors: MlxBuffer | None, pairs: int) -> MlxBuffer | bytes:
    """The factors as the kernel takes them; any four bytes where there are none."""
    if factors is None:
        return bytes(4)
    check_dtype(op, "factors", factors, (DType.F32,))
    check_shape(op, "factors", factors, (pairs,), "one per pair")
    return factors


def token_places(op: str, x: MlxBuffer, positions: Positions) -> tuple[MlxBuffer | bytes, Places, tuple[int, int, int]]:
    """The positions of x[tokens, heads, width], how to find them, and x's shape."""
    shape = _token_shape(op, x)
    if isinstance(positions, int):
        return struct.pack("<i", positions), Places(0, 0, 0, 1), shape
    check_dtype(op, "positions", positions, (DType.U32, DType.I32))
    check_shape(op, "positions", positions, shape[:1], "one per token")
    return positions, Places(0, 0, 1, 0), shape


def _offsets(offset: Positions, batch: int) -> tuple[MlxBuffer | bytes, Places]:
    if isinstance(offset, int):
        return struct.pack("<i", offset), Places(0, 0, 0, 1)
    check_dtype("rope", "offset", offset, (DType.U32, DType.I32))
    if offset.size not in (1, batch):
        raise InvalidArgument(f"rope: offset is {shown(offset)}, expected one element or {batch}, one per sequence")
    return offset, Places(int(offset.size > 1), 0, 0, 1)


def _axes_places(op: str, positions: MlxBuffer, axes: int, tokens: int) -> tuple[MlxBuffer, Places]:
    check_dtype(op, "positions", positions, (DType.U32, DType.I32))
    if len(positions.shape) != 2 or positions.shape[0] < axes or positions.shape[1] != tokens:
        raise InvalidArgument(f"{op}: positions is {shown(positions)}, expected shape [{axes} or more, {tokens}]")
    return positions, Places(0, tokens, 1, 0)


def _token_shape(op: str, x: MlxBuffer) -> tuple[int, int, int]:
    if len(x.shape) != 3:
        raise InvalidArgument(f"{op}: x is {shown(x)}, expected [tokens, heads, width]")
    tokens, heads, width = x.shape
    return tokens, heads, width


def _pairs(op: str, dims: int | None, width: int) -> int:
    dims = width if dims is None else dims
    if dims % 2 or not 0 < dims <= width:
        raise InvalidArgument(f"{op}: dims is {dims}, expected an even number up to the width, {width}")
    return dims // 2
