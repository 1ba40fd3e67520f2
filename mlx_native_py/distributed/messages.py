"""Point-to-point messages between ranks, delivered in order and checked for type and shape."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..dtypes import DType, DTypeLike
from ..errors import CollectiveTimeout, DistributedError, InvalidArgument
from ..memory.buffer import Array
from ..memory.shapes import as_shape
from .elements import ArrayLike, call_on, empty_like, raw, readable, writable
from .group import Group
from .mpi import call, mpi
from .spans import as_span
from .world import init

__all__ = ["isend", "recv", "recv_like", "send"]

_SPINS, _NAP = 2000, 0.0005
_SPIN_SECONDS = 0.02  # seconds of polling without sleep
_MOST_UNFINISHED = 64
_MAX_TAG = 0x7FFF  # the largest tag that every MPI supports


@as_span
def send(x: ArrayLike, dst: int, *, group: Group | None = None) -> ArrayLike:
    """Sends `x` to rank `dst`, which calls `recv`; returns `x` when its memory may be changed."""
    group = _other_rank(group, "dst", dst)
    given = readable(x)
    request = call(group.comm.Isend, raw(given), dst, _tag(given.dtype, given.shape))
    _wait(request, group, f"send to rank {dst}", dst)
    return x


@partial(as_span, name="send")
def isend(x: ArrayLike, dst: int, *, group: Group) -> ArrayLike:
    """Sends a copy of `x` to rank `dst` without waiting for it.

    The group keeps the copy until it has arrived. With too many pending sends, it waits for the oldest.
    """
    group, copy, unfinished = _other_rank(group, "dst", dst), np.array(readable(x)), group.unfinished_sends
    while unfinished and call(unfinished[0][0].Test):
        unfinished.popleft()
    if len(unfinished) >= _MOST_UNFINISHED:
        request, slow, _ = unfinished[0]
        _wait(request, group, f"send to rank {slow}", slow)
        unfinished.popleft()
    unfinished.append((call(group.comm.Isend, raw(copy), dst, _tag(copy.dtype, copy.shape)), dst, copy))
    return x


@as_span
def recv(shape: int | Sequence[int], dtype: DTypeLike, src: int, *, out: Any = None, group: Group | None = None) -> Any:
    """Receives an array from rank `src`; `out` is a buffer or array to receive it into."""
    axes, kind = as_shape(shape)[0], DType.of(dtype).numpy
    return _receive(np.empty(axes, kind) if out is None else out, kind, axes, src, group)


@as_span
def recv_like(x: ArrayLike, src: int, *, group: Group | None = None) -> ArrayLike:
    """Receives a new buffer or array of the type and shape of `x` from rank `src`."""
    kind = DType.of(x.dtype).numpy
    return _receive(empty_like(x, x.shape), kind, x.shape, src, group)


def _receive(out: ArrayLike, dtype: np.dtype[Any], shape: tuple[int, ...], src: int, group: Group | None) -> ArrayLike:
    group = _other_rank(group, "src", src)
    target = writable(out, dtype, shape)
    into: Array = target if target.flags.c_contiguous else np.empty(shape, dtype)
    status = mpi().Status()
    request = call(group.comm.Irecv, raw(into), src)
    _wait(request, group, f"recv of {dtype}{list(shape)} from rank {src}", src, status)
    if status.Get_count(mpi().BYTE) != into.nbytes or status.Get_tag() != _tag(dtype, shape):
        raise DistributedError(
            f"recv expected {dtype}{list(shape)} from rank {src}, which sent {status.Get_count(mpi().BYTE)} bytes "
            "of another type or shape"
        )
    if into is not target:
        target[...] = into
    return out


def _tag(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    return call_on("message", dtype, shape).check & _MAX_TAG


def _other_rank(group: Group | None, name: str, rank: int) -> Group:
    group = group or init()
    if not 0 <= rank < group.size or rank == group.rank:
        raise InvalidArgument(f"{name} is {rank}, expected another rank of {group!r}")
    return group


def _wait(request: Any, group: Group, what: str, other: int, status: Any = None) -> None:
    start, spins = time.monotonic(), 0
    try:
        while not call(request.Test, status):
            spins += 1
            if spins < _SPINS:
                continue
            waited = time.monotonic() - start
            if waited < _SPIN_SECONDS:
                os.sched_yield()
                continue
            if waited > group.timeout:
                raise CollectiveTimeout(what, group.timeout, (other,), (group.rank,))
            group.require_alive(what)
            time.sleep(_NAP)
    except BaseException:
        # The memory must outlive MPI's write to it.
        if request:
            request.Cancel()
        raise
