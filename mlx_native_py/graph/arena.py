"""The arena of a plan: scalar arguments in one buffer, which can be changed between replays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..dtypes import DType
from ..encoder import DeviceContext, Dispatch
from ..encoder.parameters import Cell
from ..errors import InvalidArgument
from ..memory.buffer import Array, MlxBuffer, exactly
from ..pipelines.pipeline import Binding

__all__ = ["ARENA", "Arena", "Scalars"]

ARENA = "the arena's MTLBuffer"
"""Stands for the arena's MTLBuffer, which may differ between replays."""


class Scalars:
    """The values of one named argument in all dispatches that have it; changes apply to the next replay.

    >>> with device.capture(y=y) as g:
    ...     for a in (1.0, 2.0):
    ...         g.encoder.dispatch(axpy, x, y, a, threads=4)
    >>> scale = g.plan(scalars=["a"]).scalars("a")
    >>> scale.get()
    array([1., 2.], dtype=float32)
    >>> scale.set(3.0)
    >>> scale.get()
    array([3., 3.], dtype=float32)
    """

    __slots__ = ("_arena", "_at", "_dtype", "_values")

    def __init__(self, arena: Arena, dtype: DType, offsets: Array) -> None:
        self._arena = arena
        self._dtype = dtype
        self._values = arena.values.view(dtype.numpy)
        self._at = offsets // dtype.size

    def __len__(self) -> int:
        return len(self._at)

    def set(self, value: Any) -> None:
        """Sets one value for all, or one for each; raises if the kernel's type cannot hold it."""
        if not isinstance(value, np.ndarray) or value.dtype != self._values.dtype:
            value = exactly(value, self._dtype)
        if value.shape not in ((), self._at.shape):
            raise InvalidArgument(f"{value.shape} values for {len(self)} numbers; give one, or one for each")
        self._values[self._at] = value
        self._arena.changed = True

    def get(self) -> Array:
        """A copy of the values."""
        return np.asarray(self._values[self._at])


class Arena:
    """Cells for scalar arguments; equal values share a cell, except for named ones, which can be set later."""

    def __init__(self, device: DeviceContext, own: Iterable[str] = ()) -> None:
        self._device = device
        self._step = device.constant_alignment
        self._own = frozenset(own)
        self._cells: dict[bytes, Cell] = {}
        self._data = bytearray()
        self._places: dict[str, list[tuple[int, Binding]]] = {name: [] for name in self._own}
        self._buffers: list[MlxBuffer] = []
        self.changed = True
        """Whether values have changed since the last replay."""
        self.values: Array = np.zeros(0, np.uint8)
        """The values for the next replay; created by `close`."""

    # Placement

    def number(self, node: Dispatch, slot: int, data: bytes) -> Cell:
        """The cell of an inline value."""
        binding = node.pipeline.buffers[slot]
        if binding is None or binding.name not in self._own:
            if data not in self._cells:
                self._cells[data] = Cell(ARENA, self._add(data), data)
            return self._cells[data]
        cell = Cell(ARENA, self._add(data), data)
        self._places[binding.name].append((cell.offset, binding))
        return cell

    def can_be_set(self, node: Dispatch, slot: int) -> bool:
        """Whether the argument at `slot` is a named one with its own cell."""
        binding = node.pipeline.buffers[slot]
        return binding is not None and binding.name in self._own

    def _add(self, data: bytes) -> int:
        offset = -(-len(self._data) // self._step) * self._step
        self._data.extend(bytes(offset - len(self._data)) + data)
        return offset

    def close(self) -> None:
        """Ends the placement of cells."""
        size = max(self._step, -(-len(self._data) // self._step) * self._step)
        self.values = np.frombuffer(self._data.ljust(size, b"\0"), np.uint8).copy()
        self._cells.clear()

    # Use

    def scalars(self, name: str) -> Scalars:
        """The cells of all arguments called `name`."""
        places = self._places.get(name)
        if not places:
            known = ", ".join(sorted(name for name, used in self._places.items() if used)) or "none"
            raise InvalidArgument(f"no argument called {name!r} can be set; there are: {known}. Name it in scalars=")
        scalar = places[0][1].scalar
        if scalar is None or scalar.lanes != 1 or any(binding.scalar != scalar for _, binding in places):
            raise InvalidArgument(f"the arguments called {name!r} are not all one kind of number")
        dtype = scalar.dtype
        return Scalars(self, dtype, np.array([offset for offset, _ in places]))

    def number_at(self, cell: Cell) -> bytes:
        """The current bytes of a cell."""
        return self.values[cell.offset : cell.offset + len(cell.data)].tobytes()

    def take_over(self, earlier: Arena) -> None:
        """Copies the named values of another arena of the same dispatches."""
        for name in self._own:
            if self._places[name]:
                self.scalars(name).set(earlier.scalars(name).get())

    def become(self, later: Arena) -> None:
        """Adopts the state of another arena of the same dispatches, so that existing `Scalars` stay valid."""
        self.values[:] = later.values
        self._buffers, self.changed = later._buffers, later.changed

    def current(self, wanted: MlxBuffer | None = None) -> MlxBuffer:
        """A buffer with the current values that no earlier replay in flight still reads.

        Prefers `wanted`: waits for committed replays that read it, and takes another buffer only if uncommitted ones
        do.
        """
        if not self.changed and (wanted is None or wanted is self._buffers[0] or wanted.allocation.is_busy()):
            return self._buffers[0]
        chosen = self._reusable(wanted) or self._device.empty(len(self.values), DType.U8, label="scalars")
        self._buffers = [chosen, *(each for each in self._buffers if each is not chosen)]
        chosen.copy_from(self.values)
        self.changed = False
        return chosen

    def _reusable(self, wanted: MlxBuffer | None) -> MlxBuffer | None:
        if wanted is not None:
            self._device.submissions.wait_for(wanted.allocation)
            if not wanted.allocation.is_busy():
                return wanted
        return next((each for each in self._buffers if not each.allocation.is_busy()), None)
