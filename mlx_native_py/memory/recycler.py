"""The recycler: reuses the memory of op results once their command buffer has completed and they are unreferenced."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from sys import getrefcount
from typing import Any

from ..dtypes import DType
from .buffer import MlxBuffer
from .signature import Signature

__all__ = ["Recycler"]

_LIMIT = 1 << 28
"""The most bytes to keep for reuse; beyond it everything is freed, since shapes have changed."""
_SMALL, _MOST_LENT, _LENT_LIMIT = 1 << 20, 8, 1 << 24
"""Limits for results still in use that are checked again later: size of one, number per signature, total bytes."""
_COUNTS_REFERENCES = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


class Recycler:
    """Free result buffers of one device, by type and shape.

    A small result that is still referenced when its command buffer completes is checked again when another one of its
    signature is needed; if it has been dropped by then, its memory is reused directly.
    """

    def __init__(
        self, empty: Callable[[tuple[int, ...], DType], MlxBuffer], forget: Callable[[Any], None] | None = None
    ) -> None:
        self._empty = empty
        self._forget = forget
        self._waiting: dict[Signature, list[MlxBuffer]] = {}
        self._lent: dict[Signature, deque[MlxBuffer]] = {}
        self._lent_bytes = 0  # at most
        self._mine = _alone()
        self.nbytes = 0
        """Bytes of the buffers kept for reuse."""

    def __repr__(self) -> str:
        return f"<Recycler of {sum(map(len, self._waiting.values()))} buffers, {self.nbytes} bytes>"

    def take(self, signature: Signature) -> MlxBuffer:
        """A buffer with undefined contents, recycled or new."""
        try:
            buffer = self._waiting[signature].pop()
            self.nbytes -= signature.nbytes
        except (KeyError, IndexError):  # asked for in one step: another thread may take the last one
            dropped = self._dropped(signature)
            if dropped is None:
                return self._empty(signature.shape, signature.dtype)
            buffer = dropped
        allocation = buffer.allocation
        allocation.pending = None
        if allocation.memory.label:
            allocation.set_label("")
        if self._forget is not None:
            self._forget(allocation.mtl)
        return buffer

    def give_back(self, results: list[MlxBuffer]) -> None:
        """Takes the results of a completed command buffer; those still referenced stay with their owners."""
        while results and _COUNTS_REFERENCES:
            buffer = results.pop()
            allocation: Any = buffer.allocation
            if allocation.memory.aliases:
                continue
            signature = buffer.signed or buffer.signature
            if getrefcount(buffer) != self._mine or getrefcount(allocation) != self._mine + 1:
                lent = self._lent.get(signature)
                if lent is not None:
                    lent.append(buffer)
                else:
                    self._lend(signature, buffer)
                continue
            allocation.pending = None
            if self.nbytes + buffer.nbytes > _LIMIT:
                self.clear()
            self.nbytes += buffer.nbytes
            self._waiting.setdefault(signature, []).append(buffer)
        results.clear()

    def _lend(self, signature: Signature, buffer: MlxBuffer) -> None:
        """Notes the first result of its signature that is still referenced."""
        if signature.nbytes > _SMALL:
            return
        if self._lent_bytes + _MOST_LENT * signature.nbytes > _LENT_LIMIT:
            self._forget_lent()
        self._lent_bytes += _MOST_LENT * signature.nbytes
        self._lent.setdefault(signature, deque(maxlen=_MOST_LENT)).append(buffer)

    def _dropped(self, signature: Signature) -> MlxBuffer | None:
        """The oldest small result of this signature that is no longer referenced."""
        lent = self._lent.get(signature)
        if lent is None:
            return None
        for _ in range(len(lent)):
            try:
                buffer: Any = lent.popleft()
            except IndexError:  # another thread took it
                return None
            allocation = buffer.allocation
            alone = getrefcount(buffer) == self._mine and getrefcount(allocation) == self._mine + 1
            if alone and not allocation.memory.aliases and not allocation.released:
                found: MlxBuffer = buffer
                return found
            lent.append(buffer)
        return None

    def _forget_lent(self) -> None:
        self._lent.clear()
        self._lent_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether `clear` would free nothing."""
        return not self.nbytes and not self._lent

    def clear(self) -> None:
        """Frees everything that is kept for reuse."""
        self._waiting.clear()
        self._forget_lent()
        self.nbytes = 0


def _alone() -> int:
    """The value of `getrefcount` for an object with a single reference, which depends on the Python version."""
    thing = object()
    return getrefcount(thing)
