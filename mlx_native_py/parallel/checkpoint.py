"""The weights of one rank: its part of the file, row-parallel sums, and vocabulary rows read on the CPU."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from ..device import MlxDevice
from ..distributed import Group
from ..distributed.repeated_sum import repeated_all_sum
from ..dtypes import DType
from ..encoder import Encoder
from ..errors import InvalidArgument
from ..memory.buffer import Array, MlxBuffer
from ..models.checkpoint import Checkpoint
from ..models.linear import Affine, Linear
from ..models.loading import OpenedModel
from ..weights import TensorFile
from ..weights.parts import part_of
from .host_steps import HostSteps
from .shard import PARTS, Shard, shard_file

__all__ = ["RowParallel", "ShardCheckpoint", "Vocabulary"]


@dataclass(frozen=True)
class RowParallel(Linear):
    """A row-parallel linear layer: each rank takes part of the inputs, and the results are summed."""

    part: Linear
    group: Group
    steps: HostSteps

    def __call__(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        y = self.part(enc, x)
        self.steps.add(enc, repeated_all_sum(y, self.group), y)
        return y

    product = __call__

    def rows(self, enc: Encoder, ids: MlxBuffer, dtype: DType) -> MlxBuffer:
        raise InvalidArgument("a row-parallel weight cannot be an embedding table")

    @property
    def nbytes(self) -> int:
        return self.part.nbytes


@dataclass(frozen=True)
class Vocabulary(Linear):
    """An embedding table whose rows the CPU reads from the file, and the part of it that serves as output head."""

    head: Linear | None
    """The rows of this rank, if it computes logits."""
    row: Linear
    """One row, as a template for others."""
    tables: tuple[Array, ...]
    """The whole table in the file: weights, and scales and biases if there are any."""
    device: MlxDevice
    steps: HostSteps

    def product(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        """Logits of this rank's tokens."""
        if self.head is None:
            raise InvalidArgument("the logits of this model are made by another rank")
        return self.head(enc, x)

    __call__ = product

    def rows(self, enc: Encoder, ids: MlxBuffer, dtype: DType) -> MlxBuffer:
        picked = [self.device.empty((ids.size, each.shape[1]), each.dtype) for each in _buffers(self.row)]
        self.steps.add(enc, lambda: self._pick(ids, picked), ids, *picked)
        numbers = self.device.buffer(np.arange(ids.size, dtype=np.uint32)).reshape(ids.shape)
        return _over(self.row, picked).rows(enc, numbers, dtype)

    def _pick(self, ids: MlxBuffer, picked: list[MlxBuffer]) -> None:
        tokens = ids.numpy().reshape(-1)
        for table, buffer in zip(self.tables, picked, strict=True):
            buffer.numpy()[...] = table[tokens]

    @property
    def nbytes(self) -> int:
        return 0 if self.head is None else self.head.nbytes


def _buffers(linear: Linear) -> list[MlxBuffer]:
    return [linear.weight, *([linear.scales, linear.biases] if isinstance(linear, Affine) else [])]


def _over(linear: Linear, buffers: list[MlxBuffer]) -> Linear:
    return replace(linear, **dict(zip(("weight", "scales", "biases"), buffers, strict=False)))


class ShardCheckpoint(Checkpoint):
    """The weights of one rank, under the names that models ask for."""

    def __init__(
        self, opened: OpenedModel, shard: Shard, device: MlxDevice, dtype: DType, group: Group, steps: HostSteps
    ) -> None:
        config, names = shard.config(opened.config), opened.family.gguf_names
        super().__init__(shard_file(opened, shard), config, device, dtype, names)
        self._opened, self._shard, self._group, self._steps = opened, shard, group, steps

    def linear(self, name: str, out: int, depth: int) -> Linear:
        split = self._opened.family.splits.get(re.sub(r"\.\d+\.", ".*.", name, count=1))
        if split is not None and split.along == "vocabulary":
            return self._vocabulary(name, depth)
        weight = super().linear(name, out, depth)
        if split is None or split.axis == "out" or self._group.size == 1:
            return weight
        return RowParallel(weight.weight, weight.bias, weight, self._group, self._steps)

    def _vocabulary(self, name: str, depth: int) -> Vocabulary:
        full, file = self._opened.name(name), self._opened.file
        tensor = self._tensor(f"{full}.weight")
        if tensor.shape[:1] != (self.config.vocab_size,):
            raise self._wrong(tensor, f"has shape {list(tensor.shape)}, expected {self.config.vocab_size} rows")
        head = self._rows(name, self._shard.vocabulary, depth) if self._shard.vocabulary else None
        row = self._rows(name, range(1), depth)
        tables = tuple(file[f"{full}.{part}"].numpy() for part in PARTS[: len(_buffers(row))])
        weight = row if head is None else head
        return Vocabulary(weight.weight, weight.bias, head, row, tables, self.device, self._steps)

    def _rows(self, name: str, rows: range, depth: int) -> Linear:
        """Some rows of a table, as a linear layer."""
        full, file = self._opened.name(name), self._opened.file
        whole = {each: tensor for each, tensor in file.items() if each.startswith(f"{full}.")}
        parts = {each: part_of(tensor, [rows]) for each, tensor in whole.items()}
        table = TensorFile(file.path, {**file, **parts}, file.metadata)
        names = self._opened.family.gguf_names
        return Checkpoint(table, self.config, self.device, self.dtype, names).linear(name, len(rows), depth)
