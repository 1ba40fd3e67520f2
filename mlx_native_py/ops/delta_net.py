"""The gated delta rule, token by token: the state of each head, updated in place, and what queries read from it."""

from __future__ import annotations

import struct
from typing import Literal, NamedTuple

from ..dtypes import DType
from ..encoder import CommandEncoder, Out
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .op import op
from .support import SIMD, check_dtype, check_shape, kernel, one_dtype, result, shown

__all__ = ["DeltaSizes", "check_delta", "gated_delta_net"]

KeyHeads = Literal["grouped", "tiled"]
_ROWS = 4
"""Rows of a state in one threadgroup, a simdgroup for each."""
_LONGEST_KEY = 256


class DeltaSizes(NamedTuple):
    """The axes of the arguments; `tiled` is 1 where value head h belongs to key head h % key_heads."""

    sequences: int
    tokens: int
    key_heads: int
    key_dim: int
    heads: int
    value_dim: int
    tiled: int


@op("S = exp(-g) S; S += beta (v - S k) k^T; out = scale S q, for each token")
def gated_delta_net(
    enc: CommandEncoder,
    q: MlxBuffer,
    k: MlxBuffer,
    v: MlxBuffer,
    g: MlxBuffer,
    beta: MlxBuffer,
    state: MlxBuffer,
    *,
    scale: float = 1.0,
    norm_eps: float | None = None,
    key_heads: KeyHeads = "grouped",
    out: MlxBuffer | None = None,
) -> MlxBuffer:
    """What the queries read, in the shape and type of v; `state` is updated in place.

    q and k are [sequences, tokens, key heads, key dim], v [sequences, tokens, heads, value dim], g and beta f32
    [sequences, tokens, heads], state f32 [sequences, heads, value dim, key dim]. Value head h has key head
    h // (heads / key heads), or h % key heads where these are `tiled`. `norm_eps` brings each q and k to length one
    first: x / sqrt(sum(x^2) + norm_eps).
    """
    sizes = check_delta("gated_delta_net", q, k, v, g, beta, state, key_heads)
    out = result(enc, "gated_delta_net", out, v.shape, v.dtype)
    per_lane = -(-sizes.key_dim // SIMD)
    pipeline = kernel(enc, "delta_net", f"gated_delta_net_{v.dtype}", {"PER_LANE": per_lane})
    axes = struct.pack("4I", sizes.tokens, sizes.key_heads, sizes.key_dim, sizes.value_dim)
    options = (scale, norm_eps or 0.0, norm_eps is not None, bool(sizes.tiled))
    groups = (-(-sizes.value_dim // _ROWS), sizes.heads, sizes.sequences)
    enc.dispatch(pipeline, q, k, v, g, beta, state, Out(out), axes, *options, threadgroups=groups, group=SIMD * _ROWS)
    return out


def check_delta(
    op: str,
    q: MlxBuffer,
    k: MlxBuffer,
    v: MlxBuffer,
    g: MlxBuffer,
    beta: MlxBuffer,
    state: MlxBuffer,
    key_heads: KeyHeads,
) -> DeltaSizes:
    """The sizes, once everything fits together."""
    one_dtype(op, q=q, k=k, v=v)
    for name, each in (("g", g), ("beta", beta), ("state", state)):
        check_dtype(op, name, each, (DType.F32,))
    if q.ndim != 4 or v.ndim != 4:
        raise InvalidArgument(
            f"{op}: q is {shown(q)} and v {shown(v)}, expected [sequences, tokens, key heads, key dim] "
            "and [sequences, tokens, heads, value dim]"
        )
    sequences, tokens, count, key_dim = q.shape
    heads, value_dim = v.shape[2:]
    check_shape(op, "k", k, q.shape, "the shape of q")
    check_shape(op, "v", v, (sequences, tokens, heads, value_dim), "sequences and tokens of q")
    check_shape(op, "g", g, (sequences, tokens, heads), "one for each head of v")
    check_shape(op, "beta", beta, (sequences, tokens, heads), "one for each head of v")
    check_shape(op, "state", state, (sequences, heads, value_dim, key_dim), "[sequences, heads, value dim, key dim]")
    if heads % count:
        raise InvalidArgument(f"{op}: v has {heads} heads, expected a multiple of the {count} of q and k")
    if key_dim > _LONGEST_KEY:
        raise InvalidArgument(f"{op}: q is {shown(q)}, expected keys of at most {_LONGEST_KEY}")
    if key_heads not in ("grouped", "tiled"):
        raise InvalidArgument(f"{op}: key_heads is {key_heads!r}, expected 'grouped' or 'tiled'")
    return DeltaSizes(sequences, tokens, count, key_dim, heads, value_dim, int(key_heads == "tiled"))
