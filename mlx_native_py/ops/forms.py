"""The choice of kernel for matrix products and attention, by device and shape."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..metal.capabilities import Capabilities
from ..pipelines.function_constants import Constants
from .matmul_shape import Shape
from .support import SIMD

__all__ = ["Form", "attends_by_lanes", "choose", "gated_results", "lanes_bytes"]


@dataclass(frozen=True)
class Form:
    """A kind of kernel, `<family>_<kind>_<types>`, and what one of its threadgroups makes."""

    kind: str
    threads: int
    columns: int
    rows: int = 1
    tiled: bool = False
    """Whether rows share a tile; where each has an expert, they come sorted by it."""
    takes_ids: bool = False
    """Whether each row may name an expert."""
    fixed: bool = False
    """Whether the layout of the weights is compiled in, and the width of a large matrix."""
    batched: bool = False
    """Whether the number of rows that share unpacked weights is compiled in."""

    def constants(self, shape: Shape, layout: Constants) -> Constants:
        """What is compiled in."""
        if not self.fixed:
            return {}
        known = dict(layout)
        if shape.columns * shape.depth >= _LARGE:
            known["DEPTH"] = shape.depth
        if self.batched:
            known["BATCH"] = self.rows
        return known


_LARGE = 1 << 16
"""Weights of a matrix that are worth a build of their own."""
_FEW_ROWS = 8
"""Up to so many rows a GPU multiplies one by one: its threads wait for memory anyway."""
_FEW_VECTOR_ROWS = 3
"""From here on a CPU unpacks the weights once for all rows."""
_FEW_QUAD_ROWS = 12
"""Up to so many rows of packed weights it does so in registers, for four rows at a time."""

_SPANS = Form("mv", threads=128, columns=32, takes_ids=True)
_ALONG_N = Form("vm", threads=128, columns=1024)
_TILES = Form("mm", threads=128, columns=64, rows=32, tiled=True)
_QUADS = Form("quad", threads=32, columns=32, takes_ids=True, fixed=True)
_BATCHES = Form("quads", threads=32, columns=32, rows=4, fixed=True, batched=True)
_LANES = Form("lane", threads=32, columns=32, rows=64, tiled=True)
_ROWS = Form("row", threads=64, columns=16, takes_ids=True)
_QUAD_COLUMNS = 32
"""Results that a simdgroup makes from quads: no matrix may have fewer."""


def choose(device: Capabilities, shape: Shape, *, packed: bool) -> Form:
    """The form for a product; `packed` says that its weights are quantised."""
    few = (_FEW_VECTOR_ROWS if device.vector_lanes else _FEW_ROWS) * max(shape.experts, 1)
    turned = shape.transposed and shape.x is not None and shape.x[1] != 1
    quads = device.vector_lanes and packed and shape.transposed and shape.columns >= _QUAD_COLUMNS
    if quads and not shape.experts and not turned and 1 < shape.rows <= _FEW_QUAD_ROWS:
        return replace(_BATCHES, rows=_even(shape.rows, _BATCHES.rows))
    if shape.rows > few or turned:
        return _LANES if device.vector_lanes else _TILES
    if not shape.transposed:
        return _ALONG_N
    if quads:
        return _QUADS
    return _ROWS if device.vector_lanes and not packed else _SPANS


def _even(rows: int, most: int) -> int:
    """How many rows go together so that parts of at most `most` are alike, or nearly so."""
    parts = -(-rows // most)
    return -(-rows // parts)


def gated_results(kind: str, width: int) -> int:
    """What a threadgroup makes of a row of `width` gated results, each of two rows of weights; 0 where it does not."""
    if kind == _QUADS.kind:
        return _QUADS.columns if width >= _QUAD_COLUMNS else 0
    return {_SPANS.kind: _SPANS.columns // 2, _ROWS.kind: _ROWS.columns // 2}.get(kind, 0)


_LANES_KEYS, _LANES_PART, _LANES_TOGETHER = 32, 32, 4


def lanes_bytes(dim: int, v_dim: int) -> int:
    """Threadgroup memory of attention with a lane for each query: results, scores, and what is staged."""
    staged = max(_LANES_TOGETHER * dim, _LANES_KEYS * _LANES_PART)
    return 4 * ((v_dim + _LANES_KEYS) * SIMD + staged)


def attends_by_lanes(device: Capabilities, dim: int, v_dim: int) -> bool:
    """Whether many queries get a lane each; else the threadgroup shares tiles of them."""
    return device.vector_lanes and lanes_bytes(dim, v_dim) <= device.max_threadgroup_memory
