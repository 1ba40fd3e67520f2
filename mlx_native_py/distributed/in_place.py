"""The short way of a reduction in place, which a decode step takes twice for each layer: what MPI is told is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory.buffer import MlxBuffer
from .elements import call_on, reduced_as
from .group import Group
from .mpi import mpi, reported

__all__ = ["prepare", "reduce_in_place"]

_MOST = 4096  # reductions that a group remembers


def reduce_in_place(name: str, op: str, x: Any, group: Group) -> bool:
    """Reduces `x` where it is; False, and nothing done, where it takes more than that."""
    if type(x) is MlxBuffer:
        allocation = x.allocation
        pending = allocation.pending
        if (pending is not None and pending.in_flight()) or allocation.released:
            return False
        key: Any = x.start
    elif type(x) is np.ndarray and x.flags.carray:
        key = x.dtype
    else:
        return False
    known = group.prepared.get(key)
    if known is None or known[0] is not name or known[1] is not x.dtype or known[2] != x.shape:
        known = prepare(key, name, op, x, group)
        if known is None:
            return False
    _, _, _, meet, call, function, in_place, memory, mpi_op = known
    meet(call)
    try:
        function(in_place, memory or x, mpi_op)
    except mpi().Exception as error:
        raise reported(error) from error
    return True


def prepare(key: Any, name: str, op: str, x: Any, group: Group) -> tuple[Any, ...] | None:
    """What MPI is told; None where it takes more than a reduction in place. Kept by address, or by type for arrays,
    whose addresses take long to ask for."""
    is_buffer = isinstance(x, MlxBuffer)
    dtype = x.dtype.numpy if is_buffer else x.dtype
    if reduced_as(dtype) != dtype or (is_buffer and x.readonly) or not x.size:
        return None
    memory: list[Any] = []
    if is_buffer:
        memory = [mpi().memory.fromaddress(x.start, x.nbytes), x.size, mpi().Datatype.fromcode(dtype.char)]
    if len(group.prepared) >= _MOST:
        group.prepared.clear()
    meet = group.meet if group.board is None else group.board.meet
    call = call_on(name, dtype, x.shape)
    known = (name, x.dtype, x.shape, meet, call, group.comm.Allreduce, mpi().IN_PLACE, memory, getattr(mpi(), op))
    group.prepared[key] = known
    return known
