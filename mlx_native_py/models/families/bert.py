"""BERT and similar encoders (MiniLM, bge): sentence embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...encoder import Encoder
from ...errors import InvalidArgument
from ...json_fields import read_table
from ...memory.buffer import Array, MlxBuffer
from ...ops import add, gelu, l2_norm, layer_norm, matmul, sdpa
from ..checkpoint import Checkpoint, Layer
from ..split import Split

__all__ = ["Bert", "BertAttention", "BertBlock", "LayerNorm", "Model"]

_POOLINGS = {1: "mean", 2: "cls"}
"""GGUF's numbering."""


class LayerNorm:
    """Layer norm with weight and bias."""

    def __init__(self, w: Checkpoint | Layer, name: str) -> None:
        hidden, self.eps = w.config.hidden_size, w.config.norm_eps
        self.weight, self.bias = w.vector(name, hidden), w.vector(name, hidden, part="bias")

    def __call__(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        return layer_norm(enc, x, self.weight, self.bias, eps=self.eps)


class BertAttention:
    """Bidirectional attention, masked by sequence length."""

    def __init__(self, w: Layer) -> None:
        config = w.config
        hidden, width = config.hidden_size, config.n_heads * config.head_dim
        self.n_heads, self.head_dim, self.scale = config.n_heads, config.head_dim, config.query_scale
        self.query = w.linear("attention.self.query", width, hidden)
        self.key = w.linear("attention.self.key", width, hidden)
        self.value = w.linear("attention.self.value", width, hidden)
        self.dense = w.linear("attention.output.dense", hidden, width)

    def __call__(self, enc: Encoder, x: MlxBuffer, lengths: MlxBuffer) -> MlxBuffer:
        B, L, _ = x.shape
        heads = (B, L, self.n_heads, self.head_dim)
        q, k, v = (part(enc, x).reshape(heads) for part in (self.query, self.key, self.value))
        out = sdpa(enc, q, k, v, scale=self.scale, length=lengths, tokens_first=True, kv_tokens_first=True)
        return self.dense(enc, out.reshape(B, L, self.n_heads * self.head_dim))


class BertBlock:
    """One layer, with norms after the residual sums."""

    def __init__(self, w: Layer) -> None:
        hidden, wide = w.config.hidden_size, w.config.intermediate_size
        self.attention = BertAttention(w)
        self.attention_norm = LayerNorm(w, "attention.output.LayerNorm")
        self.intermediate = w.linear("intermediate.dense", wide, hidden)
        self.output = w.linear("output.dense", hidden, wide)
        self.output_norm = LayerNorm(w, "output.LayerNorm")

    def __call__(self, enc: Encoder, x: MlxBuffer, lengths: MlxBuffer) -> MlxBuffer:
        x = self.attention_norm(enc, add(enc, x, self.attention(enc, x, lengths)))
        h = self.output(enc, gelu(enc, self.intermediate(enc, x)))
        return self.output_norm(enc, add(enc, x, h))


class Bert:
    """A text encoder: `embed_ids` returns a vector per token sequence."""

    activations: ClassVar[tuple[str, ...]] = ("gelu",)
    defaults: ClassVar[Mapping[str, Any]] = {"layer_norm_eps": 1e-12}
    gguf_names: ClassVar[Mapping[str, str]] = {
        "embeddings.word_embeddings": "token_embd",
        "embeddings.position_embeddings": "position_embd",
        "embeddings.token_type_embeddings": "token_types",
        "embeddings.LayerNorm": "token_embd_norm",
        "attention.self.query": "attn_q",
        "attention.self.key": "attn_k",
        "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output",
        "attention.output.LayerNorm": "attn_output_norm",
        "intermediate.dense": "ffn_up",
        "output.dense": "ffn_down",
        "output.LayerNorm": "layer_output_norm",
    }

    splits: ClassVar[Mapping[str, Split]] = {
        "embeddings.word_embeddings": Split("out", "vocabulary"),
        "encoder.layer.*.attention.self.query": Split("out", "heads"),
        "encoder.layer.*.attention.self.key": Split("out", "heads"),
        "encoder.layer.*.attention.self.value": Split("out", "heads"),
        "encoder.layer.*.attention.output.dense": Split("in", "heads"),
        "encoder.layer.*.intermediate.dense": Split("out", "wide"),
        "encoder.layer.*.output.dense": Split("in", "wide"),
    }
    """How weights are partitioned among ranks; all others are replicated."""

    def __init__(self, checkpoint: Checkpoint, metadata: Mapping[str, Any]) -> None:
        config = self.config = checkpoint.config
        self.device, self.dtype = checkpoint.device, checkpoint.dtype
        self.path: Path = checkpoint.file.path
        self.metadata = metadata
        """All GGUF metadata, or config.json."""
        hidden, types = config.hidden_size, checkpoint.rows("embeddings.token_type_embeddings")
        self.word_embeddings = checkpoint.linear("embeddings.word_embeddings", config.vocab_size, hidden)
        self.position_embeddings = checkpoint.linear("embeddings.position_embeddings", config.max_positions, hidden)
        self.token_type_embeddings = checkpoint.linear("embeddings.token_type_embeddings", types, hidden)
        self.norm = LayerNorm(checkpoint, "embeddings.LayerNorm")
        self.layers = [BertBlock(Layer(checkpoint, f"encoder.layer.{index}.")) for index in range(config.n_layers)]
        self.pooling = config.pooling or _pooling(self.path)

    @classmethod
    def completed(cls, table: Mapping[str, Any], *, is_gguf: bool) -> dict[str, Any]:
        """A file's table with defaults for missing values; null counts as missing."""
        given = {key: value for key, value in table.items() if value is not None}
        pooling = next((name for code, name in _POOLINGS.items() if code == given.get("pooling_type")), "")
        return {**cls.defaults, "pooling": pooling, **given}

    def __call__(self, enc: Encoder, tokens: MlxBuffer, lengths: MlxBuffer) -> MlxBuffer:
        """Hidden states [batch, tokens, hidden_size]; `lengths` are the valid tokens of each row."""
        B, L = tokens.shape
        places = self.device.buffer(np.tile(np.arange(L, dtype=np.uint32), (B, 1)))
        kinds = self.device.buffer(np.zeros((B, L), np.uint32))
        x = add(
            enc,
            self.word_embeddings.rows(enc, tokens, self.dtype),
            self.position_embeddings.rows(enc, places, self.dtype),
        )
        x = self.norm(enc, add(enc, x, self.token_type_embeddings.rows(enc, kinds, self.dtype)))
        for layer in self.layers:
            x = layer(enc, x, lengths)
        return x

    def embed_ids(
        self, sequences: Sequence[Sequence[int]], *, pooling: str | None = None, batch_size: int = 32
    ) -> Array:
        """Unit-length f32 vectors, one per sequence; `pooling` is "mean" or "cls" (default: the model's)."""
        how, longest, vocab = pooling or self.pooling, self.config.max_positions, self.config.vocab_size
        if how not in _POOLINGS.values():
            raise InvalidArgument(f"embed_ids: pooling is {how!r}, expected 'mean' or 'cls'")
        if not sequences or not all(0 < len(each) <= longest for each in sequences):
            raise InvalidArgument(f"embed_ids: expected sequences of 1 to {longest} tokens, and at least one of them")
        if wrong := [token for each in sequences for token in each if not 0 <= token < vocab]:
            raise InvalidArgument(f"embed_ids: token {wrong[0]}, expected 0 to {vocab - 1}")
        vectors = np.empty((len(sequences), self.config.hidden_size), np.float32)
        # Sequences of similar length share a batch, to keep padding small.
        order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
        for first in range(0, len(order), batch_size):
            part = order[first : first + batch_size]
            vectors[part] = self._embedded([sequences[index] for index in part], how)
        return vectors

    def _embedded(self, sequences: Sequence[Sequence[int]], pooling: str) -> Array:
        """Pooling is a matrix product with the weight of every token."""
        lengths = np.array([len(each) for each in sequences], np.uint32)
        tokens = np.zeros((len(sequences), int(lengths.max())), np.uint32)
        shares = np.zeros((len(sequences), 1, tokens.shape[1]), self.dtype.numpy)
        for row, each in enumerate(sequences):
            tokens[row, : len(each)] = each
            counted = len(each) if pooling == "mean" else 1
            shares[row, 0, :counted] = 1 / counted
        device = self.device
        with device.command_encoder() as enc:
            x = self(enc, device.buffer(tokens), device.buffer(lengths))
            pooled = matmul(enc, device.buffer(shares), x)
            vectors = l2_norm(enc, pooled.reshape(len(sequences), -1), eps=1e-24)
        return vectors.numpy()

    def __repr__(self) -> str:
        return f"<{self.config.model_type} of {self.config.n_layers} layers, {self.path.name}>"


def _pooling(folder: Path) -> str:
    """The pooling mode in sentence-transformers' config; "mean" if it does not say."""
    path = folder / "1_Pooling" / "config.json"
    if not path.is_file():
        return "mean"
    return "cls" if read_table(path).get("pooling_mode_cls_token") is True else "mean"


Model = Bert
"""The class that `load` uses for this architecture."""
