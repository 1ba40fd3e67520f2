"""How the weights of a family are divided among ranks: by which axis, and along what."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Split"]


class Split(NamedTuple):
    """A weight [out, in]: column-parallel by "out", so that each rank has some results, or row-parallel by "in",
    so that each rank takes some inputs and the results of all are summed."""

    axis: Literal["out", "in"]
    along: Literal["heads", "kv_heads", "wide", "vocabulary"]
    """What the axis consists of: heads of queries, heads of keys, the inside of the feed-forward network, or tokens."""
