"""Recycling of op results: a buffer is reused when its command buffer has retired and nobody else holds it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from sys import getrefcount
from typing import Any

from ..dtypes import DType
from .buffer import MlxBuffer
from .signature import Signature

__all__ = ["Recycler"]

_LIMIT = 1 << 28
"""Bytes that may wait to be used again; beyond them everything that waits is let go, since shapes have changed."""
_MINE, _BUFFER_AND_MINE = 2, 3  # references: a variable and the argument of getrefcount; with the buffer's own
_COUNTS_REFERENCES = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


class Recycler:
    """The buffers of one device that wait for another result of their type and shape."""

    def __init__(
        self, empty: Callable[[tuple[int, ...], DType], MlxBuffer], forget: Callable[[Any], None] | None = None
    ) -> None:
        self._empty = empty
        self._forget = forget
        self._waiting: dict[Signature, list[MlxBuffer]] = {}
        self.nbytes = 0
        """What waits, in bytes."""

    def __repr__(self) -> str:
        return f"<Recycler of {sum(map(len, self._waiting.values()))} buffers, {self.nbytes} bytes>"

    def take(self, signature: Signature) -> MlxBuffer:
        """A buffer, used before or not; what it holds is not defined."""
        try:
            buffer = self._waiting[signature].pop()
        except (KeyError, IndexError):  # asked for in one step: another thread may take the last one
            return self._empty(signature.shape, signature.dtype)
        self.nbytes -= signature.nbytes
        if self._forget is not None:
            self._forget(buffer.allocation.mtl)
        return buffer

    def give_back(self, results: list[MlxBuffer]) -> None:
        """Empties a list of results whose command buffer is done; those that somebody holds stay theirs."""
        while results and _COUNTS_REFERENCES:
            buffer = results.pop()
            allocation: Any = buffer.allocation
            if getrefcount(buffer) != _MINE or getrefcount(allocation) != _BUFFER_AND_MINE or allocation.memory.aliases:
                continue
            if allocation.memory.label:
                allocation.set_label("")
            allocation.pending = None
            if self.nbytes + buffer.nbytes > _LIMIT:
                self.clear()
            self.nbytes += buffer.nbytes
            self._waiting.setdefault(buffer.signature, []).append(buffer)
        results.clear()

    def clear(self) -> None:
        """Lets go of everything that waits."""
        self._waiting.clear()
        self.nbytes = 0
