"""Recycling of op results: memory is used again when its command buffer has retired and nobody else holds it."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from sys import getrefcount
from typing import Any

from ..dtypes import DType
from .allocation import Allocation
from .buffer import MlxBuffer
from .signature import Signature

__all__ = ["Recycler"]

_LIMIT = 1 << 28
"""Bytes that may wait to be used again; beyond them everything that waits is let go, since shapes have changed."""
_SMALL, _MOST_LENT, _LENT_LIMIT = 1 << 20, 8, 1 << 24
"""Results in use that are looked at again: their largest size, how many of one kind, and bytes of all."""
_COUNTS_REFERENCES = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


class Recycler:
    """The buffers of one device that wait for another result of their type and shape.

    A small result that somebody holds when its command buffer retires is looked at again when another one like it is
    wanted: by then it may have been dropped, and its memory serves without being given back and asked for anew.
    """

    def __init__(
        self, empty: Callable[[tuple[int, ...], DType], MlxBuffer], forget: Callable[[Any], None] | None = None
    ) -> None:
        self._empty = empty
        self._forget = forget
        self._waiting: dict[Signature, list[MlxBuffer]] = {}
        self._lent: dict[Signature, deque[Allocation]] = {}
        self._lent_bytes = 0  # at most
        self._mine = _alone()
        self.nbytes = 0
        """What waits, in bytes."""

    def __repr__(self) -> str:
        return f"<Recycler of {sum(map(len, self._waiting.values()))} buffers, {self.nbytes} bytes>"

    def take(self, signature: Signature) -> MlxBuffer:
        """A buffer, used before or not; what it holds is not defined."""
        try:
            buffer = self._waiting[signature].pop()
            self.nbytes -= signature.nbytes
        except (KeyError, IndexError):  # asked for in one step: another thread may take the last one
            allocation = self._dropped(signature)
            if allocation is None:
                return self._empty(signature.shape, signature.dtype)
            buffer = MlxBuffer(allocation, signature.dtype, signature.shape, 0, signature.nbytes)
        if self._forget is not None:
            self._forget(buffer.allocation.mtl)
        return buffer

    def give_back(self, results: list[MlxBuffer]) -> None:
        """Empties a list of results whose command buffer is done; those that somebody holds stay theirs."""
        while results and _COUNTS_REFERENCES:
            buffer = results.pop()
            allocation: Any = buffer.allocation
            if allocation.memory.aliases:
                continue
            if getrefcount(buffer) != self._mine or getrefcount(allocation) != self._mine + 1:
                self._lend(buffer.signature, allocation)
                continue
            _clean(allocation)
            if self.nbytes + buffer.nbytes > _LIMIT:
                self.clear()
            self.nbytes += buffer.nbytes
            self._waiting.setdefault(buffer.signature, []).append(buffer)
        results.clear()

    def _lend(self, signature: Signature, allocation: Allocation) -> None:
        if signature.nbytes > _SMALL or allocation.nbytes != signature.nbytes:
            return
        lent = self._lent.get(signature)
        if lent is None:
            if self._lent_bytes + _MOST_LENT * signature.nbytes > _LENT_LIMIT:
                self._forget_lent()
            self._lent_bytes += _MOST_LENT * signature.nbytes
            lent = self._lent.setdefault(signature, deque(maxlen=_MOST_LENT))
        lent.append(allocation)

    def _dropped(self, signature: Signature) -> Allocation | None:
        """The memory of the oldest result of its kind, if nobody has it any more."""
        lent = self._lent.get(signature)
        try:
            allocation: Any = lent.popleft() if lent else None
        except IndexError:  # another thread took it
            return None
        if lent is None or allocation is None:
            return None
        if getrefcount(allocation) != self._mine or allocation.memory.aliases or allocation.released:
            lent.append(allocation)
            return None
        _clean(allocation)
        found: Allocation = allocation
        return found

    def _forget_lent(self) -> None:
        self._lent.clear()
        self._lent_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether `clear` would free nothing: neither what waits, nor results that were perhaps dropped."""
        return not self.nbytes and not self._lent

    def clear(self) -> None:
        """Lets go of everything that waits."""
        self._waiting.clear()
        self._forget_lent()
        self.nbytes = 0


def _alone() -> int:
    """What `getrefcount` says of what one variable holds: with its own argument, or without where Python borrows it."""
    thing = object()
    return getrefcount(thing)


def _clean(allocation: Allocation) -> None:
    """Nothing is left of its last use."""
    if allocation.memory.label:
        allocation.set_label("")
    allocation.pending = None
