"""The KV cache, and the inputs of a step (tokens, positions, lengths) in buffers that replays read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np

from ..device import MlxDevice
from ..dtypes import DType
from ..encoder import Encoder
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from ..ops import kv_cache_copy, kv_cache_quantize, sdpa, slice_update
from ..ops.attention_arguments import Source
from .config import Config

__all__ = ["KVCache", "LayerCache", "StepInputs", "named_parts"]

_WORD = 32  # bits


class StepInputs:
    """The tokens of a step, [batch, queries], and their positions; set from the CPU between replays."""

    def __init__(self, device: MlxDevice, batch: int, queries: int) -> None:
        self.batch = batch
        self.queries = queries
        self.tokens = device.empty(batch * queries, DType.U32)
        self.starts = device.empty(batch, DType.U32)
        """The position of each sequence's first token."""
        self.lengths = device.empty(batch, DType.U32)
        """Tokens of each sequence, including those of this step."""
        self.positions = self.starts if queries == 1 else device.empty(batch * queries, DType.U32)

    def __repr__(self) -> str:
        return f"<StepInputs of {self.batch} sequences, {self.queries} tokens each>"

    @property
    def buffers(self) -> dict[str, MlxBuffer]:
        """All buffers by name."""
        every = {"tokens": self.tokens, "starts": self.starts, "lengths": self.lengths}
        return every if self.queries == 1 else {**every, "positions": self.positions}

    def set_positions(self, starts: Sequence[int]) -> None:
        """Sets the position of the first token of each sequence."""
        first = np.asarray(starts, np.uint32)
        self.starts.copy_from(first)
        self.lengths.copy_from(first + np.uint32(self.queries))
        if self.queries > 1:
            steps = np.arange(self.queries, dtype=np.uint32)
            self.positions.copy_from((first[:, None] + steps).reshape(-1))


@dataclass
class LayerCache:
    """Keys and values of one layer, [batch, n_kv_heads, capacity, head_dim], dense or quantised."""

    keys: Source
    values: Source
    window: int | None

    @property
    def parts(self) -> tuple[MlxBuffer, ...]:
        """All its buffers."""
        each = (source if isinstance(source, tuple) else (source,) for source in (self.keys, self.values))
        return tuple(chain.from_iterable(each))

    @property
    def capacity(self) -> int:
        return self.parts[0].shape[2]

    def update(self, enc: Encoder, k: MlxBuffer, v: MlxBuffer, inputs: StepInputs) -> None:
        """Writes new rows [batch, queries, n_kv_heads, head_dim] at the position of each sequence."""
        at, ring = inputs.starts, self.window is not None
        match self.keys, self.values:
            case MlxBuffer() as keys, MlxBuffer() as values:
                kv_cache_copy(enc, k, v, keys, values, position=at, ring=ring, tokens_first=True)
            case tuple() as packed_keys, tuple() as packed_values:
                kv_cache_quantize(enc, k, v, packed_keys, packed_values, position=at, ring=ring, tokens_first=True)

    def attend(
        self, enc: Encoder, q: MlxBuffer, inputs: StepInputs, *, scale: float, softcap: float | None = None
    ) -> MlxBuffer:
        """Attention of queries [batch, queries, n_heads, head_dim] over the cache, causally masked."""
        return sdpa(
            *(enc, q, self.keys, self.values),
            scale=scale,
            softcap=softcap,
            causal=inputs.queries > 1,
            window=self.window,
            length=inputs.lengths,
            ring=self.window is not None,
            tokens_first=True,
        )


def named_parts(layers: Sequence[LayerCache]) -> dict[str, MlxBuffer]:
    """The buffers of all layers by name."""
    return {
        f"layer{number}_{place}": part for number, layer in enumerate(layers) for place, part in enumerate(layer.parts)
    }


class KVCache:
    """The KV caches of all layers. `reserve` grows `capacity`; sliding layers are limited to their window.

    `chunk` is the maximum number of tokens per step; `bits=8` quantises keys and values.
    """

    def __init__(
        self,
        device: MlxDevice,
        config: Config,
        *,
        batch: int = 1,
        capacity: int = 256,
        chunk: int = 512,
        dtype: DType = DType.F32,
        bits: Literal[8] | None = None,
    ) -> None:
        if bits not in (None, 8):
            raise InvalidArgument(f"KVCache: bits is {bits!r}, expected None or 8")
        if bits and config.head_dim % _WORD:
            raise InvalidArgument(
                f"KVCache: bits is {bits} and heads have {config.head_dim} values, expected whole 32s"
            )
        self.device = device
        self.config = config
        self.batch = batch
        self.capacity = capacity
        self.chunk = chunk
        self.lengths = [0] * batch
        """Tokens of each sequence in the cache."""
        self._dtype, self._bits = dtype, bits
        self.layers = [self._layer(sliding, capacity) for sliding in config.sliding]

    def __repr__(self) -> str:
        nbytes = sum(part.nbytes for layer in self.layers for part in layer.parts)
        kind = f"{self._bits} bits" if self._bits else str(self._dtype)
        tokens = ", ".join(map(str, self.lengths))
        room = f"{tokens} of {self.capacity} tokens, {kind}, {nbytes / 2**20:.1f} MiB"
        return f"<KVCache of {len(self.layers)} layers, {room}>"

    def _layer(self, sliding: bool, capacity: int) -> LayerCache:
        window = self.config.sliding_window if sliding else None
        if window is not None:
            # The first query of a chunk still needs its whole window after the last query's row is written.
            capacity = min(capacity, window + self.chunk - 1)
        return LayerCache(self._rows(capacity), self._rows(capacity), window)

    def _rows(self, capacity: int) -> Source:
        axes, dim = (self.batch, self.config.n_kv_heads, capacity), self.config.head_dim
        if self._bits is None:
            return self.device.empty((*axes, dim), self._dtype)
        words = self.device.empty((*axes, dim * self._bits // _WORD), DType.U32)
        groups = (*axes, dim // (64 if dim % 64 == 0 else 32))
        return words, self.device.empty(groups, self._dtype), self.device.empty(groups, self._dtype)

    def reserve(self, length: int) -> bool:
        """Makes room for sequences of `length` tokens; returns whether buffers were replaced, so that steps must be
        rebuilt."""
        if length <= self.capacity:
            return False
        while self.capacity < length:
            self.capacity *= 2
        with self.device.command_encoder() as enc:
            grown = [self._layer(sliding, self.capacity) for sliding in self.config.sliding]
            for index, (old, new) in enumerate(zip(self.layers, grown, strict=True)):
                if new.capacity == old.capacity:
                    grown[index] = old
                    continue
                for before, after in zip(old.parts, new.parts, strict=True):
                    slice_update(enc, after, before, (0, 0, 0, 0))
        self.layers = grown
        return True

    def row(self, sequence: int) -> list[LayerCache]:
        """The layers of one sequence, as views."""
        return [
            LayerCache(_row(layer.keys, sequence), _row(layer.values, sequence), layer.window) for layer in self.layers
        ]

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for layer in self.layers for each in layer.parts)


def _row(source: Source, index: int) -> Source:
    if isinstance(source, MlxBuffer):
        return source[index : index + 1]
    words, scales, biases = (each[index : index + 1] for each in source)
    return words, scales, biases
