"""Collectives: every rank of the group makes the same call with the same type and shape.

Each returns its result; `out` is where it goes, and may be `x` itself. Buffers are used in place.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..errors import InvalidArgument
from ..memory.buffer import Array
from .elements import ArrayLike, call_on, empty_like, raw, readable, reduced_as, writable
from .group import Group
from .in_place import reduce_in_place, repeat_reduction
from .mpi import call, mpi
from .rendezvous import Call
from .spans import as_span
from .world import init

__all__ = ["all_gather", "all_max", "all_min", "all_sum", "barrier", "broadcast", "sum_scatter"]

_BARRIER = Call("barrier")


def all_sum(x: ArrayLike, *, out: ArrayLike | None = None, group: Group | None = None) -> ArrayLike:
    """The sum of all ranks' `x`, on every rank; f16 and bf16 are added in f32.

    >>> all_sum(np.array([1, 2]))
    array([1, 2])
    """
    if out is x and repeat_reduction("all_sum", x, group):
        return x
    return _other_sum(x, out, group)


@as_span
def all_max(x: ArrayLike, *, out: ArrayLike | None = None, group: Group | None = None) -> ArrayLike:
    """The elementwise maximum over the ranks, on every rank; NaN gives an undefined result."""
    return _reduce("all_max", "MAX", x, out, group)


@as_span
def all_min(x: ArrayLike, *, out: ArrayLike | None = None, group: Group | None = None) -> ArrayLike:
    """The elementwise minimum over the ranks, on every rank; NaN gives an undefined result."""
    return _reduce("all_min", "MIN", x, out, group)


@as_span
def all_gather(x: ArrayLike, *, out: ArrayLike | None = None, group: Group | None = None) -> ArrayLike:
    """All ranks' `x` concatenated along the first axis, on every rank.

    >>> all_gather(np.zeros((2, 3))).shape
    (2, 3)
    """
    group = group or init()
    given: Array = readable(x)
    shape = (group.size * (given.shape[0] if given.shape else 1), *given.shape[1:])
    result = empty_like(x, shape) if out is None else out
    target = writable(result, given.dtype, shape)
    gathered = _apart(target, given)
    if group.comm is None:
        gathered.reshape(-1)[...] = given.reshape(-1)
    else:
        group.meet(call_on("all_gather", given.dtype, given.shape))
        call(group.comm.Allgather, raw(given), raw(gathered))
    return _delivered(result, target, gathered)


@as_span
def sum_scatter(x: ArrayLike, *, out: ArrayLike | None = None, group: Group | None = None) -> ArrayLike:
    """This rank's part, along the first axis, of the sum of all ranks' `x`; f16 and bf16 are added in f32.

    >>> sum_scatter(np.arange(4)).tolist()
    [0, 1, 2, 3]
    """
    group = group or init()
    given: Array = readable(x)
    if not given.shape or given.shape[0] % group.size:
        raise InvalidArgument(
            f"sum_scatter of shape {list(given.shape)}: the first axis must be a multiple of the {group.size} ranks"
        )
    _require_numbers("sum_scatter", given.dtype)
    shape = (given.shape[0] // group.size, *given.shape[1:])
    result = empty_like(x, shape) if out is None else out
    target = writable(result, given.dtype, shape)
    if group.comm is None:
        target[...] = given
        return result
    wide = given.astype(reduced_as(given.dtype), copy=False)
    summed = _apart(target, given) if wide is given else np.empty(shape, wide.dtype)
    group.meet(call_on("sum_scatter", given.dtype, given.shape))
    call(group.comm.Reduce_scatter_block, wide, summed, op=mpi().SUM)
    return _delivered(result, target, summed)


@as_span
def broadcast(x: ArrayLike, *, root: int = 0, out: ArrayLike | None = None, group: Group | None = None) -> ArrayLike:
    """The `x` of rank `root`, on every rank; on others `x` gives the type and shape.

    >>> broadcast(np.arange(2))
    array([0, 1])
    """
    group = group or init()
    if not 0 <= root < group.size:
        raise InvalidArgument(f"root is {root}, expected a rank from 0 to {group.size - 1}")
    given: Array = readable(x)
    result = empty_like(x, given.shape) if out is None else out
    target = writable(result, given.dtype, given.shape)
    sent = target if target.flags.c_contiguous else np.empty(given.shape, given.dtype)
    if sent is not given and group.rank == root:
        sent[...] = given
    if group.comm is not None:
        group.meet(call_on("broadcast", given.dtype, given.shape, f", root={root}"))
        call(group.comm.Bcast, raw(sent), root)
    return _delivered(result, target, sent)


@as_span
def barrier(*, group: Group | None = None) -> None:
    """Returns when every rank has called it."""
    group = group or init()
    if group.comm is not None:
        group.meet(_BARRIER)
        call(group.comm.Barrier)


def _reduce(name: str, op: str, x: ArrayLike, out: ArrayLike | None, group: Group | None) -> ArrayLike:
    group = group or init()
    if out is x and group.comm is not None and reduce_in_place(name, op, x, group):
        return x
    given: Array = readable(x)
    _require_numbers(name, given.dtype)
    result = empty_like(x, given.shape) if out is None else out
    target = writable(result, given.dtype, given.shape)
    if out is x and target.flags.c_contiguous:
        given = target
    if group.comm is None:
        target[...] = given
        return result
    kind = reduced_as(given.dtype)
    if kind == given.dtype and target.flags.c_contiguous:
        reduced = target
        if target is not given:
            target[...] = given
    else:
        reduced = given.astype(kind)
    group.meet(call_on(name, given.dtype, given.shape))
    call(group.comm.Allreduce, mpi().IN_PLACE, reduced, op=getattr(mpi(), op))
    return _delivered(result, target, reduced)


@partial(as_span, name="all_sum")
def _other_sum(x: ArrayLike, out: ArrayLike | None, group: Group | None) -> ArrayLike:
    return _reduce("all_sum", "SUM", x, out, group)


def _apart(target: Array, given: Array) -> Array:
    """Contiguous memory for MPI to write to that does not overlap what it reads."""
    if target.flags.c_contiguous and not np.may_share_memory(target, given):
        return target
    return np.empty(target.shape, target.dtype)


def _delivered(result: ArrayLike, target: Array, values: Array) -> ArrayLike:
    if values is not target:
        with np.errstate(all="ignore"):
            target[...] = values
    return result


def _require_numbers(name: str, dtype: np.dtype[Any]) -> None:
    if dtype == np.bool_ and name in ("all_sum", "sum_scatter"):
        raise InvalidArgument(f"{name} of bool has no meaning; use all_max for any, all_min for all")
