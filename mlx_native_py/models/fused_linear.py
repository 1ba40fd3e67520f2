"""Fused linear layers: layers with the same input whose weights form one matrix, for a single product per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..device import MlxDevice
from ..encoder import Encoder
from ..memory.buffer import MlxBuffer
from .linear import Linear

__all__ = ["FusedLinear", "adjacent_view", "fuse_linears"]

_WORTH_COPYING = 4 << 20
"""Weights up to this many bytes are copied together, because a launch costs more."""


@dataclass(frozen=True)
class FusedLinear:
    """Several linear layers with the same input; `whole` is the fused one, if they could be fused."""

    parts: tuple[Linear, ...]
    whole: Linear | None

    def __call__(self, enc: Encoder, x: MlxBuffer) -> list[MlxBuffer]:
        """The result of each layer for x [rows, in]; for a single row they are adjacent views."""
        if self.whole is None or x.shape[0] != 1:
            return [part(enc, x) for part in self.parts]
        return _cut(self.whole(enc, x).reshape(-1, 1), [len(part.weight) for part in self.parts], shape=(1, -1))


def fuse_linears(device: MlxDevice, *parts: Linear) -> FusedLinear:
    """Fuses layers whose weights are adjacent in memory, or small enough to copy."""
    tables = [_buffers(part) for part in parts]
    alike = len({_kind(part, table) for part, table in zip(parts, tables, strict=True)}) == 1
    columns = [_whole(device, [table[name] for table in tables]) for name in tables[0]] if alike else [None]
    joined = {name: column for name, column in zip(tables[0], columns, strict=False) if column is not None}
    if len(joined) < len(tables[0]):
        return FusedLinear(parts, None)
    rows = [len(part.weight) for part in parts]
    cut = {name: _cut(column, rows) for name, column in joined.items()}
    own = tuple(replace(part, **{name: cut[name][i] for name in cut}) for i, part in enumerate(parts))
    return FusedLinear(own, replace(parts[0], **joined))


def adjacent_view(buffers: Sequence[MlxBuffer], shape: tuple[int, ...]) -> MlxBuffer | None:
    """One view over buffers that are adjacent in memory, or None."""
    first = buffers[0]
    if any(a.allocation is not b.allocation or a.end != b.start for a, b in pairwise(buffers)):
        return None
    return MlxBuffer(first.allocation, first.dtype, shape, first.offset, sum(each.nbytes for each in buffers))


def _buffers(linear: Linear) -> dict[str, MlxBuffer]:
    buffers = {field.name: getattr(linear, field.name) for field in fields(linear)}
    return {name: value for name, value in buffers.items() if isinstance(value, MlxBuffer)}


def _kind(linear: Linear, table: dict[str, MlxBuffer]) -> tuple[Any, ...]:
    """The properties that must match for rows of two layers to form one matrix."""
    settings = (getattr(linear, field.name) for field in fields(linear) if field.name not in table)
    return type(linear), *settings, *((name, each.dtype, each.shape[1:]) for name, each in table.items())


def _whole(device: MlxDevice, buffers: list[MlxBuffer]) -> MlxBuffer | None:
    """A buffer with the rows of all buffers; None if they are neither adjacent nor small."""
    whole = adjacent_view(buffers, (sum(map(len, buffers)), *buffers[0].shape[1:]))
    if whole is None and sum(each.nbytes for each in buffers) <= _WORTH_COPYING:
        rows = np.concatenate([each.numpy() for each in buffers])
        return device.buffer(rows, buffers[0].dtype, label=buffers[0].label)
    return whole


def _cut(whole: MlxBuffer, rows: list[int], shape: tuple[int, ...] | None = None) -> list[MlxBuffer]:
    ends = list(accumulate(rows))
    parts = [whole[end - count : end] for count, end in zip(rows, ends, strict=True)]
    return parts if shape is None else [part.reshape(*shape) for part in parts]
