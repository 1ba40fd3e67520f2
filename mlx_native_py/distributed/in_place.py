"""The fast path of in-place reductions, which a decode step uses twice per layer: MPI arguments are cached."""

from __future__ import annotations

from typing import Any
from weakref import ref

from numpy import ndarray

from ..memory.buffer import MlxBuffer
from ..profiling import observer
from .elements import call_on, reduced_as
from .group import Group
from .mpi import mpi, reported

__all__ = ["prepare", "reduce_in_place", "repeat_reduction"]

_MAX_PREPARED = 4096  # reductions cached per group


def repeat_reduction(name: str, x: Any, group: Group | None) -> bool:
    """Repeats a reduction done before, if no profile is running; otherwise returns False and does nothing."""
    if group is None or observer.watchers:
        return False
    if type(x) is MlxBuffer:
        allocation = x.allocation
        if allocation.released or ((pending := allocation.pending) is not None and pending.in_flight()):
            return False
        known = group.prepared.get(x.start)
    else:
        known = group.prepared.get(id(x))
    if known is None:
        return False
    # `_run` inlined, because a call would cost a good part of the total.
    owner, known_name, dtype, shape, meet, call, function, in_place, memory, mpi_op = known
    if known_name is not name or dtype is not x.dtype or shape != x.shape or (owner is not None and owner() is not x):
        return False
    meet(call)
    try:
        function(in_place, memory or x, mpi_op)
    except mpi().Exception as error:
        raise reported(error) from error
    return True


def reduce_in_place(name: str, op: str, x: Any, group: Group) -> bool:
    """Reduces `x` in place; returns False, with nothing done, if that is not possible."""
    if type(x) is MlxBuffer:
        if x.allocation.released or x.allocation.in_flight():
            return False
    elif type(x) is not ndarray or not x.flags.carray:
        return False
    known = prepare(name, op, x, group)
    if known is not None:
        _run(known, x)
    return known is not None


def _run(known: tuple[Any, ...], x: Any) -> None:
    _, _, _, _, meet, call, function, in_place, memory, mpi_op = known
    meet(call)
    try:
        function(in_place, memory or x, mpi_op)
    except mpi().Exception as error:
        raise reported(error) from error


def prepare(name: str, op: str, x: Any, group: Group) -> tuple[Any, ...] | None:
    """Caches the MPI arguments of a reduction, by buffer address or array identity; None if it cannot be done in
    place."""
    is_buffer = isinstance(x, MlxBuffer)
    dtype = x.dtype.numpy if is_buffer else x.dtype
    if reduced_as(dtype) != dtype or (is_buffer and x.readonly) or not x.size:
        return None
    memory: list[Any] = []
    if is_buffer:
        memory = [mpi().memory.fromaddress(x.start, x.nbytes), x.size, mpi().Datatype.fromcode(dtype.char)]
    if len(group.prepared) >= _MAX_PREPARED:
        group.prepared.clear()
    meet = group.meet if group.rendezvous is None else group.rendezvous.meet
    call = call_on(name, dtype, x.shape)
    function, mpi_op = group.comm.Allreduce, getattr(mpi(), op)
    owner = None if is_buffer else ref(x)
    known = (owner, name, x.dtype, x.shape, meet, call, function, mpi().IN_PLACE, memory, mpi_op)
    group.prepared[x.start if is_buffer else id(x)] = known
    return known
