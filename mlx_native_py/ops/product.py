"""Matrix products: argument checks, kernel selection and launch, shared by dense and quantised ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DType
from ..encoder import Encoder, Out
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from ..pipelines.function_constants import Constants
from .forms import choose
from .matmul_shape import Batch, Shape
from .support import SIMD, check_dtype, kernel, shown

__all__ = ["check_rank", "expert_batch", "expert_rows", "launch", "product_flops"]


def check_rank(name: str, buffer: MlxBuffer, rank: int) -> None:
    if buffer.ndim != rank:
        raise InvalidArgument(f"{name} is {shown(buffer)}, expected {rank} axes")


def expert_batch(step: int) -> Batch:
    """Expert matrices selected by ids, `step` apart in the units of the weights."""
    return Batch(steps=((0, 0, 0), (0, 0, step), (0, 0, 0)))


def expert_rows(x: MlxBuffer, ids: MlxBuffer, depth: int) -> int:
    """How many result rows share a row of x: all experts of a token, or one each."""
    check_dtype("ids", ids, (DType.U32,))
    for share, shape in ((ids.shape[-1] if ids.shape else 1, ids.shape[:-1]), (1, ids.shape)):
        if x.shape == (*shape, depth):
            return share
    raise InvalidArgument(
        f"x is {shown(x)} and ids is {shown(ids)}; "
        f"expected x of shape {[*ids.shape[:-1], depth]} or {[*ids.shape, depth]}"
    )


def launch(
    enc: Encoder,
    family: str,
    name: str,
    shape: Shape,
    x: MlxBuffer,
    weights: Sequence[Any],
    out: MlxBuffer,
    *,
    ids: MlxBuffer | None = None,
    extra: Sequence[Any] = (),
    constants: Constants | None = None,
    fixed: Constants | None = None,
) -> None:
    """Runs the kernel variant chosen by `forms`; `weights` follow x, and `extra` the shape.

    Variants with compile-time shapes also take the `fixed` constants.
    """
    form = choose(enc.device.capabilities, shape, packed=family != "matmul")
    groups = _over(shape.columns, form.columns), _over(shape.rows, form.rows)
    chosen: tuple[Any, ...] = (0 if ids is None else ids,)[: form.takes_ids]
    if form.tiled:
        chosen = (0, 0)
        if ids is not None:
            chosen = _route(enc, ids, shape.experts)
            groups = groups[0], groups[1] + shape.experts + 1
    known = {**(constants or {}), **form.constants(shape, fixed or {})}
    pipeline = kernel(enc, family, f"{family}_{form.kind}_{name}", known)
    arguments = (x, *weights, Out(out), *chosen, shape.pack(), *extra)
    enc.dispatch(pipeline, *arguments, threadgroups=(*groups, shape.batch.count), group=form.threads)


def _over(count: int, size: int) -> int:
    return -(-count // size)


def _route(enc: Encoder, ids: MlxBuffer, experts: int) -> tuple[MlxBuffer, MlxBuffer]:
    """Row indices sorted by expert, and where each expert's rows begin."""
    starts, order = enc.empty(experts + 2, DType.U32), enc.empty(ids.size, DType.U32)
    pipeline = kernel(enc, "matmul", "matmul_route")
    arguments = (ids, Out(starts), Out(order), ids.size, experts)
    enc.dispatch(pipeline, *arguments, threadgroups=experts + 1, group=SIMD)
    return starts, order


def product_flops(result: MlxBuffer, /, *, transpose_a: bool = False, **given: Any) -> int:
    """Two operations per result value and summed element."""
    rows: MlxBuffer = given["a"] if "a" in given else given["x"]
    return 2 * result.size * rows.shape[-2 if transpose_a else -1]
