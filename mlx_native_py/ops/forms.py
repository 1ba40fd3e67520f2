"""Kernel selection for matrix products and attention, by device and shape."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..metal.capabilities import Capabilities
from ..pipelines.function_constants import Constants
from .matmul_shape import Shape
from .support import SIMD

__all__ = ["Form", "attends_by_lanes", "choose", "gated_results", "lanes_bytes"]


@dataclass(frozen=True)
class Form:
    """A kernel variant, `<family>_<kind>_<types>`, and the tile that one of its threadgroups computes."""

    kind: str
    threads: int
    columns: int
    rows: int = 1
    tiled: bool = False
    """Whether rows share a tile; rows with experts are then sorted by expert."""
    takes_ids: bool = False
    """Whether each row may select an expert."""
    fixed: bool = False
    """Whether the weight layout, and the width of a large matrix, are compile-time constants."""
    batched: bool = False
    """Whether the number of rows that share unpacked weights is a compile-time constant."""

    def constants(self, shape: Shape, layout: Constants) -> Constants:
        """The compile-time constants."""
        if not self.fixed:
            return {}
        known = dict(layout)
        if shape.columns * shape.depth >= _LARGE:
            known["DEPTH"] = shape.depth
        if self.batched:
            known["BATCH"] = self.rows
        return known


_LARGE = 1 << 16
"""The size of a matrix from which it is worth its own build."""
_FEW_ROWS = 8
"""Up to this many rows, a GPU processes them one by one, since it is limited by memory."""
_FEW_VECTOR_ROWS = 3
"""From here on, a CPU unpacks the weights once for all rows."""
_FEW_QUAD_ROWS = 12
"""Up to this many rows of packed weights, it does so in registers, four rows at a time."""

_SPANS = Form("mv", threads=128, columns=32, takes_ids=True)
_ALONG_N = Form("vm", threads=128, columns=1024)
_TILES = Form("mm", threads=128, columns=64, rows=32, tiled=True)
_QUADS = Form("quad", threads=32, columns=32, takes_ids=True, fixed=True)
_BATCHES = Form("quads", threads=32, columns=32, rows=4, fixed=True, batched=True)
_LANES = Form("lane", threads=32, columns=32, rows=64, tiled=True)
_ROWS = Form("row", threads=64, columns=16, takes_ids=True)
_QUAD_COLUMNS = 32
"""Results per simdgroup of the quad kernels; narrower matrices use other kernels."""


def choose(device: Capabilities, shape: Shape, *, packed: bool) -> Form:
    """The kernel variant for a product; `packed` means quantised weights."""
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
    """The number of rows per part such that parts of at most `most` are nearly equal."""
    parts = -(-rows // most)
    return -(-rows // parts)


def gated_results(kind: str, width: int) -> int:
    """Results per threadgroup of a fused gate over `width` results; 0 if this kernel has none."""
    if kind == _QUADS.kind:
        return _QUADS.columns if width >= _QUAD_COLUMNS else 0
    return {_SPANS.kind: _SPANS.columns // 2, _ROWS.kind: _ROWS.columns // 2}.get(kind, 0)


_LANES_KEYS, _LANES_PART, _LANES_TOGETHER = 32, 32, 4


def lanes_bytes(dim: int, v_dim: int) -> int:
    """Threadgroup memory of attention with one lane per query: results, scores and staging."""
    staged = max(_LANES_TOGETHER * dim, _LANES_KEYS * _LANES_PART)
    return 4 * ((v_dim + _LANES_KEYS) * SIMD + staged)


def attends_by_lanes(device: Capabilities, dim: int, v_dim: int) -> bool:
    """Whether prefill uses one lane per query instead of shared tiles."""
    return device.vector_lanes and lanes_bytes(dim, v_dim) <= device.max_threadgroup_memory
