"""What all products of matrices share: their shape as kernels take it, the choice of kernel, and the launch."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..dtypes import DType
from ..encoder import CommandEncoder, Out
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from ..pipelines.function_constants import Constants
from .support import SIMD, check_dtype, kernel, shown

__all__ = [
    "Batch",
    "FEW_ROWS",
    "Shape",
    "broadcast",
    "check_rank",
    "expert_batch",
    "expert_rows",
    "launch",
    "tiles_pay",
]

FEW_ROWS = 8
"""Up to so many rows are multiplied one by one, without tiles."""
_MATVEC_SIMDS, _MATVEC_ROWS = 4, 8
_VECMAT_COLUMNS, _VECMAT_THREADS = 1024, 128
_TILE_M, _TILE_N, _TILE_THREADS = 32, 64, 128
_BATCH_AXES = 3
_PACK = struct.Struct("<8I2f14Q")

Steps = tuple[int, int, int]


@dataclass(frozen=True)
class Batch:
    """The axes before a matrix: three sizes, and the step of each operand along them (0 where it is broadcast)."""

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
    """Steps of x along m and k."""
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


def broadcast(op: str, sizes: Sequence[int], *operands: tuple[Sequence[int], int]) -> Batch:
    """The batch of the result, given each operand's own batch axes and the elements of one of its matrices.

    Neighbouring axes along which every operand steps evenly become one.
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
            f"{op}: the batch {list(sizes)} broadcasts along {len(merged)} separate axes, at most {_BATCH_AXES} can be"
        )
    filled = [(1, (0,) * len(operands))] * (_BATCH_AXES - len(merged)) + merged
    columns = tuple((a, b, c) for a, b, c in zip(*(along for _, along in filled), strict=True))
    return Batch((filled[0][0], filled[1][0], filled[2][0]), columns)


def _steps(axes: Sequence[int], elements: int, rank: int) -> list[int]:
    """The step along each axis of the result; an axis of 1, or none, stays where it is."""
    steps = []
    for size in reversed((*(1,) * (rank - len(axes)), *axes)):
        steps.append(elements if size > 1 else 0)
        elements *= size
    return steps[::-1]


def check_rank(op: str, name: str, buffer: MlxBuffer, rank: int) -> None:
    if buffer.ndim != rank:
        raise InvalidArgument(f"{op}: {name} is {shown(buffer)}, expected {rank} axes")


def expert_batch(step: int) -> Batch:
    """Matrices that ids choose from, `step` apart, in whatever the weights count in."""
    return Batch(steps=((0, 0, 0), (0, 0, step), (0, 0, 0)))


def expert_rows(op: str, x: MlxBuffer, ids: MlxBuffer, depth: int) -> int:
    """How many rows of the result share a row of x: all experts of a token, or one each."""
    check_dtype(op, "ids", ids, (DType.U32,))
    for share, shape in ((ids.shape[-1] if ids.shape else 1, ids.shape[:-1]), (1, ids.shape)):
        if x.shape == (*shape, depth):
            return share
    raise InvalidArgument(
        f"{op}: x is {shown(x)} and ids is {shown(ids)}; "
        f"expected x of shape {[*ids.shape[:-1], depth]} or {[*ids.shape, depth]}"
    )


def tiles_pay(rows: int, experts: int = 0) -> bool:
    """Whether there are enough rows, for each expert where there are any, to make tiles of them."""
    return rows > FEW_ROWS * max(experts, 1)


def launch(
    enc: CommandEncoder,
    family: str,
    name: str,
    shape: Shape,
    x: MlxBuffer,
    weights: Sequence[Any],
    out: MlxBuffer,
    *,
    tiled: bool,
    ids: MlxBuffer | None = None,
    extra: Sequence[Any] = (),
    constants: Constants | None = None,
) -> None:
    """Runs `<family>_mm_<name>`, or for few rows `_mv_` or `_vm_`; `weights` follow x, and `extra` the shape."""
    columns, rows = shape.columns, shape.rows
    chosen: tuple[Any, ...]
    if tiled:
        kind, threads, groups = "mm", _TILE_THREADS, (_over(columns, _TILE_N), _over(rows, _TILE_M))
        chosen = (0, 0)
        if ids is not None:
            chosen = _route(enc, ids, shape.experts)
            groups = groups[0], groups[1] + shape.experts + 1
    elif shape.transposed:
        kind, threads, groups = "mv", _MATVEC_SIMDS * SIMD, (_over(columns, _MATVEC_SIMDS * _MATVEC_ROWS), rows)
        chosen = (0 if ids is None else ids,)
    else:
        kind, threads, groups = "vm", _VECMAT_THREADS, (_over(columns, _VECMAT_COLUMNS), rows)
        chosen = ()
    pipeline = kernel(enc, family, f"{family}_{kind}_{name}", constants)
    arguments = (x, *weights, Out(out), *chosen, shape.pack(), *extra)
    enc.dispatch(pipeline, *arguments, threadgroups=(*groups, shape.batch.count), group=threads)


def _over(count: int, size: int) -> int:
    return -(-count // size)


def _route(enc: CommandEncoder, ids: MlxBuffer, experts: int) -> tuple[MlxBuffer, MlxBuffer]:
    """The rows sorted by expert: where each expert's begin, and their numbers."""
    starts, order = enc.empty(experts + 2, DType.U32), enc.empty(ids.size, DType.U32)
    pipeline = kernel(enc, "matmul", "matmul_route")
    arguments = (ids, Out(starts), Out(order), ids.size, experts)
    enc.dispatch(pipeline, *arguments, threadgroups=experts + 1, group=SIMD)
    return starts, order
