"""Placeholder buffers: a type and shape without memory, to record dispatches that are not run."""

from __future__ import annotations

from ..dtypes import DType
from ..hazards.ranges import Memory
from .allocation import Allocation
from .buffer import MlxBuffer
from .residency import Residency
from .shapes import as_shape

__all__ = ["placeholder"]


def placeholder(
    residency: Residency, dtype: DType, shape: tuple[int, ...], offset: int = 0, *, readonly: bool = False
) -> MlxBuffer:
    """A buffer at `offset` bytes in memory that does not exist."""
    _, count = as_shape(shape)
    nbytes = count * dtype.size
    memory = Memory(0, offset + nbytes, known=False)
    home = Allocation(None, 0, offset + nbytes, residency, memory=memory, readonly=readonly)
    return MlxBuffer(home, dtype, shape, offset, nbytes)
