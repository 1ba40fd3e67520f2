"""Inline numbers of many dispatches in one buffer, to be changed between replays by one store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import DType
from ..encoder import CapturedDispatch
from ..errors import InvalidArgument
from ..memory.buffer import Array, MlxBuffer, exactly
from ..pipelines.pipeline import Binding

if TYPE_CHECKING:
    from ..device import MlxDevice

__all__ = ["Arena", "Scalars"]

# Apple's own GPUs take numbers at any multiple of 4; others want them far apart.
_CLOSE, _FAR = 16, 256


class Scalars:
    """The values of one argument in all dispatches that have it; the next replay sees what is set.

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
        """One value for all, or one for each; what the kernel's type cannot hold is refused."""
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
    """Cells of numbers, and of addresses; equal numbers share a cell, unless they are named to be set later."""

    def __init__(self, device: MlxDevice, own: Iterable[str] = ()) -> None:
        self._device = device
        self._step = _CLOSE if device.capabilities.apple_family else _FAR
        self._own = frozenset(own)
        self._cells: dict[Any, int] = {}
        self._data = bytearray()
        self._places: dict[str, list[tuple[int, Binding]]] = {name: [] for name in self._own}
        self._addresses: list[int] = []
        self._buffers: list[MlxBuffer] = []
        self.changed = True
        """Whether the values are other than those that were sent last."""
        self.values: Array = np.zeros(0, np.uint8)
        """What the next replay sees; made by `close`."""

    # Placing

    def number(self, node: CapturedDispatch, slot: int, data: bytes) -> int:
        """The offset of an inline number."""
        binding = node.pipeline.buffers[slot]
        if binding is None or binding.name not in self._own:
            if data not in self._cells:
                self._cells[data] = self._add(data)
            return self._cells[data]
        offset = self._add(data)
        self._places[binding.name].append((offset, binding))
        return offset

    def can_be_set(self, node: CapturedDispatch, slot: int) -> bool:
        """Whether the number at `slot` was named, so that it has a cell of its own."""
        binding = node.pipeline.buffers[slot]
        return binding is not None and binding.name in self._own

    def table(self, addresses: Iterable[int | None]) -> int:
        """The offset of a row of addresses; None is filled in by `point`."""
        return self._add(b"".join((each or 0).to_bytes(8, "little") for each in addresses))

    def point(self, cell: int, offset: int) -> None:
        """Puts the address of the number at `offset` into a cell."""
        self._data[cell : cell + 8] = offset.to_bytes(8, "little")
        self._addresses.append(cell // 8)

    def _add(self, data: bytes) -> int:
        offset = -(-len(self._data) // self._step) * self._step
        self._data.extend(bytes(offset - len(self._data)) + data)
        return offset

    def close(self) -> None:
        """Everything is placed."""
        size = max(self._step, -(-len(self._data) // self._step) * self._step)
        self.values = np.frombuffer(self._data.ljust(size, b"\0"), np.uint8).copy()
        self._cells.clear()

    # Using

    def scalars(self, name: str) -> Scalars:
        """The cells of all arguments called `name`."""
        places = self._places.get(name)
        if not places:
            known = ", ".join(sorted(name for name, found in self._places.items() if found)) or "none"
            raise InvalidArgument(f"no argument called {name!r} can be set; there are: {known}. Name it in scalars=")
        scalar = places[0][1].scalar
        if scalar is None or scalar.lanes != 1 or any(binding.scalar != scalar for _, binding in places):
            raise InvalidArgument(f"the arguments called {name!r} are not all one kind of number")
        dtype = scalar.dtype
        return Scalars(self, dtype, np.array([offset for offset, _ in places]))

    def number_at(self, offset: int, like: Any) -> bytes:
        """The present value of a number, as many bytes as `like` has."""
        return self.values[offset : offset + len(like)].tobytes()

    def take_over(self, earlier: Arena) -> None:
        """The numbers that were set in another arena of the same dispatches."""
        for name in self._own:
            if self._places[name]:
                self.scalars(name).set(earlier.scalars(name).get())

    def become(self, later: Arena) -> None:
        """Takes on the contents of another arena of the same dispatches, so that `Scalars` of this one stay good."""
        self.values[:] = later.values
        self._addresses, self._buffers, self.changed = later._addresses, later._buffers, later.changed

    def current(self, wanted: MlxBuffer | None = None) -> MlxBuffer:
        """A buffer with the present values; none that an earlier replay may still read in another state.

        `wanted` is waited for, and another one is taken only while replays that read it are not yet committed.
        """
        if not self.changed and (wanted is None or wanted is self._buffers[0] or wanted.allocation.is_busy()):
            return self._buffers[0]
        chosen = self._reusable(wanted) or self._device.empty(len(self.values), DType.U8, label="scalars")
        self._buffers = [chosen, *(each for each in self._buffers if each is not chosen)]
        chosen.copy_from(self.values)
        if self._addresses:
            chosen.view(DType.U64).numpy()[self._addresses] += np.uint64(chosen.mtl.gpuAddress())
        self.changed = False
        return chosen

    def _reusable(self, wanted: MlxBuffer | None) -> MlxBuffer | None:
        if wanted is not None:
            self._device.submissions.wait_for(wanted.allocation)
            if not wanted.allocation.is_busy():
                return wanted
        return next((each for each in self._buffers if not each.allocation.is_busy()), None)
