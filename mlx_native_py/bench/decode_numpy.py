"""A Llama in numpy, float32 with a KV cache, using the dequantised weights of a loaded model."""

from __future__ import annotations

import numpy as np

from ..dtypes import DType
from ..memory.buffer import Array, MlxBuffer
from ..models.families.llama import Llama, LlamaBlock
from ..models.linear import Linear

__all__ = ["NumpyLlama"]


class NumpyLlama:
    """The numpy baseline; `step` takes a token and returns the most likely next one."""

    def __init__(self, model: Llama) -> None:
        self.config = model.config
        self._device = model.device
        self.table = self._matrix(model.embed_tokens)
        self.head = self.table if model.lm_head is model.embed_tokens else self._matrix(model.lm_head)
        self.norm = _vector(model.norm)
        self.layers = [self._layer(layer) for layer in model.layers]
        self.restart()

    def restart(self) -> None:
        """Clears the KV cache."""
        self.keys: list[list[Array]] = [[] for _ in self.layers]
        self.values: list[list[Array]] = [[] for _ in self.layers]

    @staticmethod
    def fits(model: Llama) -> bool:
        """Whether the model is a plain Llama: one rope over whole heads, no windows, no biases."""
        config, attention = model.config, model.layers[0].self_attn
        plain = config.model_type in ("llama", "mistral") and not any(config.sliding)
        whole = config.rope.dims == config.head_dim and attention.rope.options["factors"] is None
        return plain and whole and attention.q_proj.bias is None and model.lm_head.bias is None

    def _layer(self, block: LlamaBlock) -> dict[str, Array]:
        attention, mlp = block.self_attn, block.feed_forward
        linears = {name: getattr(attention, f"{name}_proj") for name in "qkvo"}
        linears |= {name: getattr(mlp, f"{name}_proj") for name in ("gate", "up", "down")}
        norms = {"attention_norm": block.input_layernorm, "mlp_norm": block.post_attention_layernorm}
        matrices = {name: self._matrix(linear) for name, linear in linears.items()}
        return matrices | {name: _vector(weight) for name, weight in norms.items()}

    def _matrix(self, linear: Linear) -> Array:
        """Dequantises by looking up every row, which works for all formats."""
        rows = self._device.buffer(np.arange(linear.weight.shape[0], dtype=np.uint32))
        with self._device.command_encoder() as enc:
            values = linear.rows(enc, rows, DType.F32)
        return values.numpy().astype(np.float32)

    def step(self, token: int) -> int:
        """The most likely next token."""
        x = self.table[token]
        for index, layer in enumerate(self.layers):
            x = x + self._attention(layer, index, self._normed(x, layer["attention_norm"]))
            h = self._normed(x, layer["mlp_norm"])
            gate = layer["gate"] @ h
            x = x + layer["down"] @ (gate / (1 + np.exp(-gate)) * (layer["up"] @ h))
        return int((self.head @ self._normed(x, self.norm)).argmax())

    def _attention(self, layer: dict[str, Array], index: int, h: Array) -> Array:
        config = self.config
        q, k, v = ((layer[name] @ h).reshape(-1, config.head_dim) for name in "qkv")
        position = len(self.keys[index])
        self.keys[index].append(self._rotated(k, position))
        self.values[index].append(v)
        keys, values = np.stack(self.keys[index], 1), np.stack(self.values[index], 1)
        groups = self._rotated(q, position).reshape(config.n_kv_heads, -1, config.head_dim)
        scores = groups @ keys.swapaxes(1, 2) * np.float32(config.query_scale)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = shares / shares.sum(-1, keepdims=True) @ values
        product: Array = layer["o"] @ mixed.reshape(-1)
        return product

    def _rotated(self, x: Array, position: int) -> Array:
        rope = self.config.rope
        angles = position * rope.scale * rope.base ** (-np.arange(0, rope.dims, 2) / rope.dims)
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        if rope.traditional:
            a, b = x[:, 0::2], x[:, 1::2]
            return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def _normed(self, x: Array, weight: Array) -> Array:
        normed: Array = x / np.sqrt(np.mean(x * x) + np.float32(self.config.norm_eps)) * weight
        return normed


def _vector(weight: MlxBuffer) -> Array:
    return weight.numpy().astype(np.float32)
