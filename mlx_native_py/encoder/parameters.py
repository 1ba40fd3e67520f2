"""The parameter arena: inline kernel arguments stored in buffers, where an offset is cheaper to send than bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import DType
from ..forks import Lock
from ..memory.buffer import MlxBuffer

__all__ = ["Cell", "Parameters"]

_CHUNK = 1 << 16


class Cell:
    """Bytes of a kernel argument stored in a buffer, and bound like one."""

    __slots__ = ("data", "mtl", "offset")

    def __init__(self, mtl: Any, offset: int, data: bytes) -> None:
        self.mtl = mtl
        self.offset = offset
        self.data = data


class Parameters:
    """An arena with one cell per distinct value; equal bytes share a cell.

    A cell is written once, so command buffers in flight never see it change. A full chunk stays alive for its users,
    and a new one is started.
    """

    def __init__(self, empty: Callable[..., MlxBuffer], alignment: int) -> None:
        self._empty = empty
        self._alignment = alignment
        self._lock = Lock()
        self._new_chunk()

    def _new_chunk(self) -> None:
        self.chunk = self._empty(_CHUNK, DType.U8, label="parameters")
        self.cells: dict[bytes, Cell] = {}
        self._next = 0

    def add(self, cells: dict[bytes, Cell], data: bytes) -> Cell | None:
        """Returns the cell of `data`; None if `cells` belong to a chunk that is no longer current."""
        with self._lock:
            if cells is not self.cells:
                return None
            if self._next + len(data) > _CHUNK:
                self._new_chunk()
                return None
            if (cell := cells.get(data)) is None:
                self.chunk.numpy(wait=False)[self._next : self._next + len(data)] = memoryview(data)
                cell = cells[data] = Cell(self.chunk.mtl, self._next, data)
                self._next += -(-len(data) // self._alignment) * self._alignment
            return cell
