"""Rotary position embeddings (RoPE): plain, at given positions, multi-section and two-dimensional."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..op import Output, op
from ..positions import PositionLayout, Positions, axis_places, sequence_places, token_places, token_shape
from ..rope_tables import checked_factors, frequencies, pair_count, section_axes, turn_table, turns, vision_frequencies
from ..support import kernel, one_dtype, result, shown

__all__ = ["rope", "rope_2d", "rope_at", "rope_multi"]


# A thread computes the angle of a pair once for several heads, unless there are too few tokens to fill the GPU.
_HEADS_EACH = 8
_MANY_TOKENS = 64


class _Heads(NamedTuple):
    """x as [batch, tokens, heads, width]: strides and sizes."""

    strides: tuple[int, int, int]
    batch: int
    heads: int
    tokens: int
    width: int


@op("(a, b) -> (a cos - b sin, a sin + b cos), angle = (offset + t) * scale * base^(-2i/dims) / factor")
def rope(
    enc: Encoder,
    x: MlxBuffer,
    *,
    dims: int | None = None,
    traditional: bool = False,
    base: float | None = 10000.0,
    scale: float = 1.0,
    offset: Positions = 0,
    factors: MlxBuffer | None = None,
    out: Output = None,
) -> MlxBuffer:
    """RoPE over x[..., tokens, width]: pair i is (2i, 2i+1) if `traditional`, otherwise (i, i + dims/2).

    `offset` is the first token's position, or a buffer with one per sequence (the first axis). `factors` divide the
    frequencies; with `base=None` the frequencies are their reciprocals.
    """
    if len(x.shape) < 2:
        raise InvalidArgument(f"x is {shown(x)}, expected [..., tokens, width]")
    tokens, width = x.shape[-2:]
    batch = x.shape[0] if len(x.shape) > 2 else 1
    heads = x.size // (batch * tokens * width)
    place = _Heads((heads * tokens * width, tokens * width, width), batch, heads, tokens, width)
    table = turns(dims, width, base, scale, factors is not None)
    where, places = sequence_places(offset, batch)
    block = 2 if traditional else len(table) // 4
    return _launch(enc, "rope", x, out, place, where, places, table, block, factors=factors)


@op("rope of each token at its own position")
def rope_at(
    enc: Encoder,
    x: MlxBuffer,
    positions: Positions,
    *,
    dims: int | None = None,
    traditional: bool = False,
    base: float | None = 10000.0,
    scale: float = 1.0,
    factors: MlxBuffer | None = None,
    out: Output = None,
) -> MlxBuffer:
    """RoPE over x[tokens, heads, width] with a position per token; options as for `rope`."""
    where, places, (tokens, heads, width) = token_places(x, positions)
    place = _Heads((x.size, width, heads * width), 1, heads, tokens, width)
    table = turns(dims, width, base, scale, factors is not None)
    block = 2 if traditional else len(table) // 4
    return _launch(enc, "rope_at", x, out, place, where, places, table, block, factors=factors)


@op("rope whose pairs take their positions from different axes")
def rope_multi(
    enc: Encoder,
    x: MlxBuffer,
    positions: MlxBuffer,
    *,
    sections: Sequence[int],
    mode: Literal["mrope", "imrope", "vision"] = "mrope",
    dims: int | None = None,
    base: float = 10000.0,
    out: Output = None,
) -> MlxBuffer:
    """Multi-section RoPE over x[tokens, heads, width] with positions[axes, tokens]; pair i is (i, i + dims/2).

    `sections` are pairs per axis: consecutive for "mrope", interleaved for "imrope"; "vision" has two sections that
    fill the head, and restarts its frequencies in the second.
    """
    tokens, heads, width = token_shape(x)
    pairs = pair_count(dims, width)
    axes = section_axes(mode, tuple(sections), pairs, width)
    steps = vision_frequencies(sections[0], pairs, base) if mode == "vision" else frequencies(pairs, base)
    where, places = axis_places(positions, max(axes) + 1, tokens)
    place = _Heads((x.size, width, heads * width), 1, heads, tokens, width)
    return _launch(enc, "rope_multi", x, out, place, where, places, turn_table(steps), 2 * pairs, axes=axes)


@op("rope of a head's first half by positions[0] and of its second half by positions[1]")
def rope_2d(
    enc: Encoder,
    x: MlxBuffer,
    positions: MlxBuffer,
    *,
    base: float = 10000.0,
    out: Output = None,
) -> MlxBuffer:
    """RoPE of image patches: x[tokens, heads, width] with positions[2, tokens]; each half is treated as a head."""
    tokens, heads, width = token_shape(x)
    if width % 4:
        raise InvalidArgument(f"x is {shown(x)}, expected a width that is a multiple of 4")
    steps = frequencies(width // 4, base) * 2
    axes = bytes(pair >= width // 4 for pair in range(width // 2))
    where, places = axis_places(positions, 2, tokens)
    place = _Heads((x.size, width, heads * width), 1, heads, tokens, width)
    return _launch(enc, "rope_2d", x, out, place, where, places, turn_table(steps), width // 2, axes=axes)


def _launch(
    enc: Encoder,
    name: str,
    x: MlxBuffer,
    out: Output,
    place: _Heads,
    where: MlxBuffer | bytes,
    places: PositionLayout,
    table: bytes,
    block: int,
    *,
    axes: bytes | None = None,
    factors: MlxBuffer | None = None,
) -> MlxBuffer:
    dtype = one_dtype(x=x)
    out = result(enc, out, x.shape, dtype)
    pairs = len(table) // 8
    heads_each = min(place.heads, _HEADS_EACH) if place.tokens * place.batch >= _MANY_TOKENS else 1
    enc.dispatch(
        kernel(enc, "rope", f"rope_{dtype}"),
        x,
        where,
        checked_factors(factors, pairs),
        Out(out),
        table,
        bytes(pairs) if axes is None else axes,
        struct.pack("<3Q4I", *place.strides, place.heads, heads_each, pairs, block),
        struct.pack("<4I", *places),
        factors is not None,
        threads=(place.width - pairs, place.tokens, place.batch * -(-place.heads // heads_each)),
    )
    return out
