"""How the weights of a family are partitioned among ranks."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Split"]


class Split(NamedTuple):
    """How a weight [out, in] is split: "out" is column-parallel, "in" is row-parallel with summed results."""

    axis: Literal["out", "in"]
    along: Literal["heads", "kv_heads", "wide", "vocabulary"]
    """What the axis consists of: query heads, key/value heads, feed-forward units, or vocabulary tokens."""
