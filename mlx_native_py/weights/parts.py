"""Parts of tensors: the rows and columns that one of several processes reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ..device import MlxDevice
from ..errors import InvalidArgument
from ..memory.buffer import Array, MlxBuffer
from .ggml_types import GGML_TYPES
from .tensors import Tensor

__all__ = ["TensorPart", "part_of"]

_MIN_MAPPED = 1 << 16  # bytes; smaller parts are copied, as a mapped buffer takes whole pages


@dataclass(frozen=True, slots=True, eq=False)
class TensorPart(Tensor):
    """Some rows and columns of a tensor; adjacent whole rows stay memory-mapped."""

    whole: Tensor = field(kw_only=True)
    rows: tuple[range, ...] = field(kw_only=True)
    columns: slice = field(kw_only=True)
    """Of the array that the whole tensor is: elements, or bytes of a packed format."""

    def bytes(self) -> memoryview:
        """Its bytes: in the file, or a copy if it has only some columns."""
        return np.ascontiguousarray(self.numpy()).view(np.uint8).reshape(-1).data

    def numpy(self) -> Array:
        """An array over the file if the rows are adjacent, otherwise a copy; bytes for packed formats."""
        array = self.whole.numpy()
        pieces = [array[rows.start : rows.stop] for rows in self.rows]
        picked = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return picked if picked.ndim == 1 else picked[:, self.columns]

    def buffer(self, device: MlxDevice, *, copy: bool = False) -> MlxBuffer:
        """A buffer over the pages of the file, if possible, otherwise a copy."""
        array = self.numpy()
        aligned = array.__array_interface__["data"][0] % array.itemsize == 0
        shared = array.flags.c_contiguous and aligned and array.nbytes >= _MIN_MAPPED
        return device.buffer(array, copy=None if shared and not copy else True, label=self.name)


def part_of(tensor: Tensor, rows: Sequence[range] | None = None, columns: range | None = None) -> Tensor:
    """Row ranges of a tensor, and a column range of each row; None means all.

    Columns of a block format are counted in values, and must start and end at a block.
    """
    if tensor.problem or len(tensor.shape) not in (1, 2):
        return tensor
    wanted = _joined(rows) if rows is not None else (range(tensor.shape[0]),)
    width = tensor.shape[-1] if columns is None or len(tensor.shape) == 1 else len(columns)
    shape = (sum(map(len, wanted)), *((width,) if len(tensor.shape) == 2 else ()))
    return TensorPart(
        tensor.name,
        shape,
        tensor.format,
        tensor.file,
        tensor.offset,
        tensor.nbytes * prod(shape) // tensor.size,
        tensor.packed,
        whole=tensor,
        rows=wanted,
        columns=slice(None) if columns is None else _stored(tensor, columns),
    )


def _joined(ranges: Sequence[range]) -> tuple[range, ...]:
    """Merges adjacent ranges."""
    merged: list[range] = []
    for each in ranges:
        if merged and merged[-1].stop == each.start:
            merged[-1] = range(merged[-1].start, each.stop)
        else:
            merged.append(each)
    return tuple(merged)


def _stored(tensor: Tensor, columns: range) -> slice:
    if not tensor.packed:
        return slice(columns.start, columns.stop)
    block = GGML_TYPES[tensor.format]
    if columns.start % block.values or columns.stop % block.values:
        raise InvalidArgument(
            f"columns {columns.start} to {columns.stop} of {tensor.name!r} cut a block: "
            f"{block} has blocks of {block.values}"
        )
    return slice(block.row_bytes(columns.start), block.row_bytes(columns.stop))
