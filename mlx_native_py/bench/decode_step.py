"""A decode step of a Llama-shaped model with random weights, through ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import ops
from ..device import MlxDevice
from ..encoder import Encoder
from ..memory.buffer import MlxBuffer

__all__ = ["DecodeStep"]


@dataclass(frozen=True)
class _Shape:
    layers: int = 30
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_width: int = 64
    hidden: int = 128
    vocabulary: int = 256
    capacity: int = 64


class DecodeStep:
    """Weights, KV caches, and buffers for token and position; the next token is written back.

    Nothing that changes from token to token is part of a dispatch, so a captured step can be replayed.
    """

    def __init__(self, device: MlxDevice, **sizes: int) -> None:
        self.shape = shape = _Shape(**sizes)
        self._rng = np.random.default_rng(0)
        self._device = device
        self.token = device.buffer(np.array([1], np.uint32))
        self.position = device.buffer(np.array([0], np.uint32))
        self.length = device.buffer(np.array([1], np.uint32))
        self._one = device.buffer(np.array([1], np.uint32))
        q, kv = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
        self.table = self._weight(shape.vocabulary, shape.width)
        self.last_norm = self._weight(shape.width)
        self.layers = [
            {
                "attention_norm": self._weight(shape.width),
                "q": self._weight(q, shape.width),
                "k": self._weight(kv, shape.width),
                "v": self._weight(kv, shape.width),
                "o": self._weight(shape.width, q),
                "mlp_norm": self._weight(shape.width),
                "gate": self._weight(shape.hidden, shape.width),
                "up": self._weight(shape.hidden, shape.width),
                "down": self._weight(shape.width, shape.hidden),
                "keys": device.empty((1, shape.kv_heads, shape.capacity, shape.head_width)),
                "values": device.empty((1, shape.kv_heads, shape.capacity, shape.head_width)),
            }
            for _ in range(shape.layers)
        ]

    def _weight(self, *shape: int) -> MlxBuffer:
        return self._device.buffer(self._rng.normal(size=shape).astype(np.float32) / np.float32(shape[-1] ** 0.5))

    def restart(self, token: int = 1) -> None:
        """Resets to the first position."""
        for buffer, value in ((self.token, token), (self.position, 0), (self.length, 1)):
            buffer.fill(value)

    def encode(self, enc: Encoder) -> MlxBuffer:
        """Encodes a step; returns the logits."""
        x = ops.embedding(enc, self.token, self.table)
        for layer in self.layers:
            x = ops.add(enc, x, self._attention(enc, layer, ops.rms_norm(enc, x, layer["attention_norm"])))
            h = ops.rms_norm(enc, x, layer["mlp_norm"])
            gate, up = (ops.matmul(enc, h, layer[name], transpose_b=True) for name in ("gate", "up"))
            gated = ops.mul(enc, ops.silu(enc, gate), up)
            x = ops.add(enc, x, ops.matmul(enc, gated, layer["down"], transpose_b=True))
        logits: MlxBuffer = ops.matmul(enc, ops.rms_norm(enc, x, self.last_norm), self.table, transpose_b=True)
        ops.argmax(enc, logits, out=self.token)
        return logits

    def _attention(self, enc: Encoder, layer: dict[str, MlxBuffer], h: MlxBuffer) -> Any:
        shape = self.shape
        q, k, v = (ops.matmul(enc, h, layer[name], transpose_b=True) for name in "qkv")
        heads = {name: t.reshape(1, -1, shape.head_width) for name, t in (("q", q), ("k", k), ("v", v))}
        q, k = (ops.rope_at(enc, heads[name], self.position) for name in "qk")
        ops.kv_cache_copy(enc, k, heads["v"], layer["keys"], layer["values"], position=self.position)
        attended = ops.sdpa(
            enc,
            q.reshape(1, shape.heads, 1, shape.head_width),
            layer["keys"],
            layer["values"],
            scale=shape.head_width**-0.5,
            length=self.length,
        )
        return ops.matmul(enc, attended.reshape(1, -1), layer["o"], transpose_b=True)
