"""The shape of a matrix product as kernels take it, and broadcasting of batches."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InvalidArgument

__all__ = ["Batch", "Shape", "broadcast"]

_BATCH_AXES = 3
_PACK = struct.Struct("<8I2f14Q")

Steps = tuple[int, int, int]


@dataclass(frozen=True)
class Batch:
    """Batch axes: three sizes, and the strides of each operand along them (0 if broadcast)."""

    sizes: tuple[int, int, int] = (1, 1, 1)
    steps: tuple[Steps, ...] = ((0, 0, 0), (0, 0, 0), (0, 0, 0))

    @property
    def count(self) -> int:
        return math.prod(self.sizes)


@dataclass(frozen=True)
class Shape:
    """out[m, n] = alpha * sum over k of x[m, k] * w[n, k] + beta * c[m, n]: `MatmulShape` of kernels/shared."""

    rows: int
    columns: int
    depth: int
    experts: int = 0
    share: int = 1
    transposed: bool = True
    alpha: float = 1.0
    beta: float = 0.0
    x: tuple[int, int] | None = None
    """Strides of x along m and k."""
    w_row: int = 0
    c: tuple[int, int] = (0, 0)
    batch: Batch = Batch()

    def pack(self) -> bytes:
        x = (self.depth, 1) if self.x is None else self.x
        x_batch, w_batch, c_batch = self.batch.steps
        numbers = (self.rows, self.columns, self.depth, self.experts, self.share, int(self.transposed))
        return _PACK.pack(
            *numbers,
            *self.batch.sizes[1:],
            *(self.alpha, self.beta),
            *(*x, *x_batch),
            *(self.w_row, *w_batch),
            *(*self.c, *c_batch),
        )


def broadcast(sizes: Sequence[int], *operands: tuple[Sequence[int], int]) -> Batch:
    """The batch of the result, given each operand's batch axes and matrix size.

    Adjacent axes with uniform strides in every operand are merged.
    """
    steps = [_steps(axes, elements, len(sizes)) for axes, elements in operands]
    merged: list[tuple[int, tuple[int, ...]]] = []
    for size, *along in zip(sizes, *steps, strict=True):
        if size == 1:
            continue
        if merged and all(before == step * size for before, step in zip(merged[-1][1], along, strict=True)):
            merged[-1] = (merged[-1][0] * size, tuple(along))
        else:
            merged.append((size, tuple(along)))
    if len(merged) > _BATCH_AXES:
        raise InvalidArgument(
            f"the batch {list(sizes)} broadcasts along {len(merged)} separate axes, at most {_BATCH_AXES} can be"
        )
    filled = [(1, (0,) * len(operands))] * (_BATCH_AXES - len(merged)) + merged
    columns = tuple((a, b, c) for a, b, c in zip(*(along for _, along in filled), strict=True))
    return Batch((filled[0][0], filled[1][0], filled[2][0]), columns)


def _steps(axes: Sequence[int], elements: int, rank: int) -> list[int]:
    """The stride along each axis of the result; 0 along broadcast axes."""
    steps = []
    for size in reversed((*(1,) * (rank - len(axes)), *axes)):
        steps.append(elements if size > 1 else 0)
        elements *= size
    return steps[::-1]
