"""Checks of the arguments of the gated delta rule."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..dtypes import DType
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .support import check_dtype, check_shape, one_dtype, shown

__all__ = ["DeltaSizes", "KeyHeads", "check_delta"]

KeyHeads = Literal["grouped", "tiled"]
_LONGEST_KEY = 256


class DeltaSizes(NamedTuple):
    """The sizes of the arguments; `tiled` is 1 if value head h uses key head h % key_heads."""

    sequences: int
    tokens: int
    key_heads: int
    key_dim: int
    heads: int
    value_dim: int
    tiled: int


def check_delta(
    q: MlxBuffer,
    k: MlxBuffer,
    v: MlxBuffer,
    g: MlxBuffer,
    beta: MlxBuffer,
    state: MlxBuffer,
    key_heads: KeyHeads,
) -> DeltaSizes:
    """Checks that the arguments fit together; returns their sizes."""
    one_dtype(q=q, k=k, v=v)
    for name, each in (("g", g), ("beta", beta), ("state", state)):
        check_dtype(name, each, (DType.F32,))
    if q.ndim != 4 or v.ndim != 4:
        raise InvalidArgument(
            f"q is {shown(q)} and v {shown(v)}, expected [sequences, tokens, key heads, key dim] "
            "and [sequences, tokens, heads, value dim]"
        )
    sequences, tokens, count, key_dim = q.shape
    heads, value_dim = v.shape[2:]
    check_shape("k", k, q.shape, "the shape of q")
    check_shape("v", v, (sequences, tokens, heads, value_dim), "sequences and tokens of q")
    check_shape("g", g, (sequences, tokens, heads), "one for each head of v")
    check_shape("beta", beta, (sequences, tokens, heads), "one for each head of v")
    check_shape("state", state, (sequences, heads, value_dim, key_dim), "[sequences, heads, value dim, key dim]")
    if heads % count:
        raise InvalidArgument(f"v has {heads} heads, expected a multiple of the {count} of q and k")
    if key_dim > _LONGEST_KEY:
        raise InvalidArgument(f"q is {shown(q)}, expected keys of at most {_LONGEST_KEY}")
    if key_heads not in ("grouped", "tiled"):
        raise InvalidArgument(f"key_heads is {key_heads!r}, expected 'grouped' or 'tiled'")
    return DeltaSizes(sequences, tokens, count, key_dim, heads, value_dim, int(key_heads == "tiled"))
