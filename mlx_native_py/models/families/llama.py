"""Llama and similar models (SmolLM2, Mistral)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...dtypes import DType
from ...encoder import Encoder
from ...graph import Template
from ...memory.buffer import MlxBuffer
from ...ops import add, rms_norm, silu_mul, softcap
from ...profiling.regions import region
from ..cache import KVCache, LayerCache, StepInputs
from ..checkpoint import Checkpoint, Layer
from ..decoder import Decoder, Sampling
from ..fused_linear import adjacent_view, fuse_linears
from ..rope import RotaryEmbedding
from ..split import Split

__all__ = ["Llama", "LlamaAttention", "LlamaBlock", "LlamaMLP", "Model"]


class LlamaAttention:
    """Grouped-query attention with rotary embeddings."""

    def __init__(self, w: Layer, rope: RotaryEmbedding) -> None:
        config = w.config
        self.n_heads, self.n_kv_heads, self.head_dim = config.n_heads, config.n_kv_heads, config.head_dim
        self.scale, self.softcap = config.query_scale, config.attn_softcap
        width, kv_width = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        self.q_proj = w.linear("self_attn.q_proj", width, config.hidden_size)
        self.k_proj = w.linear("self_attn.k_proj", kv_width, config.hidden_size)
        self.v_proj = w.linear("self_attn.v_proj", kv_width, config.hidden_size)
        self.o_proj = w.linear("self_attn.o_proj", config.hidden_size, width)
        self.qkv = fuse_linears(w.checkpoint.device, self.q_proj, self.k_proj, self.v_proj)
        self.q_proj, self.k_proj, self.v_proj = self.qkv.parts
        self.rope = rope

    def __call__(self, enc: Encoder, x: MlxBuffer, inputs: StepInputs, cache: LayerCache) -> MlxBuffer:
        B, L, D = inputs.batch, inputs.queries, self.head_dim
        q, k, v = self.qkv(enc, x)
        q, k = q.reshape(B * L, self.n_heads, D), k.reshape(B * L, self.n_kv_heads, D)
        q, k = self.rotated(enc, q, k, inputs.positions)
        v = v.reshape(B, L, self.n_kv_heads, D)
        cache.update(enc, k.reshape(v.shape), v, inputs)
        q = q.reshape(B, L, self.n_heads, D)
        out = cache.attend(enc, q, inputs, scale=self.scale, softcap=self.softcap)
        return self.o_proj(enc, out.reshape(B * L, self.n_heads * D))

    def rotated(self, enc: Encoder, q: MlxBuffer, k: MlxBuffer, positions: MlxBuffer) -> tuple[MlxBuffer, MlxBuffer]:
        """Applies the rope to queries and keys; in one call if they are adjacent, for a single token."""
        both = adjacent_view((q, k), (1, self.n_heads + self.n_kv_heads, self.head_dim)) if len(q) == 1 else None
        if both is None:
            return self.rope(enc, q, positions), self.rope(enc, k, positions)
        heads = self.rope(enc, both, positions).reshape(-1, 1, self.head_dim)
        return heads[: self.n_heads].reshape(q.shape), heads[self.n_heads :].reshape(k.shape)


class LlamaMLP:
    """The gated feed-forward network."""

    def __init__(self, w: Layer) -> None:
        hidden, wide = w.config.hidden_size, w.config.intermediate_size
        self.gate_proj = w.linear("mlp.gate_proj", wide, hidden)
        self.up_proj = w.linear("mlp.up_proj", wide, hidden)
        self.down_proj = w.linear("mlp.down_proj", hidden, wide)
        self.gate_up = fuse_linears(w.checkpoint.device, self.gate_proj, self.up_proj)
        self.gate_proj, self.up_proj = self.gate_up.parts

    def __call__(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        return self.down_proj(enc, self.gated(enc, *self.gate_up(enc, x)))

    def gated(self, enc: Encoder, gate: MlxBuffer, up: MlxBuffer) -> MlxBuffer:
        return silu_mul(enc, gate, up)


class LlamaBlock:
    """One layer."""

    attention: ClassVar[type[LlamaAttention]] = LlamaAttention
    mlp: ClassVar[type[LlamaMLP]] = LlamaMLP

    def __init__(self, w: Layer, rope: RotaryEmbedding) -> None:
        hidden, self.eps = w.config.hidden_size, w.config.norm_eps
        self.self_attn = self.attention(w, rope)
        self.feed_forward = self.mlp(w)
        self.input_layernorm = w.vector("input_layernorm", hidden)
        self.post_attention_layernorm = w.vector("post_attention_layernorm", hidden)

    def __call__(self, enc: Encoder, x: MlxBuffer, inputs: StepInputs, cache: LayerCache) -> MlxBuffer:
        h = rms_norm(enc, x, self.input_layernorm, eps=self.eps)
        x = add(enc, x, self.self_attn(enc, h, inputs, cache))
        h = rms_norm(enc, x, self.post_attention_layernorm, eps=self.eps)
        return add(enc, x, self.feed_forward(enc, h))


class Llama:
    """A text decoder: tokens to hidden states, hidden states to logits."""

    block: ClassVar[type[LlamaBlock]] = LlamaBlock
    activations: ClassVar[tuple[str, ...]] = ("silu", "swish")
    """Accepted names of the activation in config.json; empty if it is not checked."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Values that config.json may omit."""
    gguf_defaults: ClassVar[Mapping[str, Any]] = {"rope_traditional": True}
    gguf_names: ClassVar[Mapping[str, str]] = {}
    splits: ClassVar[Mapping[str, Split]] = {
        "embed_tokens": Split("out", "vocabulary"),
        "layers.*.self_attn.q_proj": Split("out", "heads"),
        "layers.*.self_attn.k_proj": Split("out", "kv_heads"),
        "layers.*.self_attn.v_proj": Split("out", "kv_heads"),
        "layers.*.self_attn.o_proj": Split("in", "heads"),
        "layers.*.mlp.gate_proj": Split("out", "wide"),
        "layers.*.mlp.up_proj": Split("out", "wide"),
        "layers.*.mlp.down_proj": Split("in", "wide"),
        "lm_head": Split("out", "vocabulary"),
    }
    """How weights are partitioned among ranks; all others are replicated."""

    def __init__(self, checkpoint: Checkpoint, metadata: Mapping[str, Any]) -> None:
        config = self.config = checkpoint.config
        self.device, self.dtype = checkpoint.device, checkpoint.dtype
        self.path: Path = checkpoint.file.path
        self.metadata = metadata
        """All GGUF metadata, or config.json."""
        self.step_templates: dict[Hashable, Template] = {}
        self.embed_tokens = checkpoint.linear("embed_tokens", config.vocab_size, config.hidden_size)
        full, local = checkpoint.rotary(config.rope), checkpoint.rotary(config.local_rope)
        self.layers = [
            self.block(Layer(checkpoint, f"layers.{index}."), local if sliding else full)
            for index, sliding in enumerate(config.sliding)
        ]
        self.norm = self.final_norm(checkpoint)
        tied = config.tie_embeddings or "lm_head" not in checkpoint
        self.lm_head = self.embed_tokens if tied else checkpoint.linear("lm_head", *self.embedding_shape)

    @classmethod
    def completed(cls, table: Mapping[str, Any], *, is_gguf: bool) -> dict[str, Any]:
        """A file's table with defaults for missing values; null counts as missing."""
        given = {key: value for key, value in table.items() if value is not None}
        return {**cls.defaults, **(cls.gguf_defaults if is_gguf else {}), **given}

    @property
    def embedding_shape(self) -> tuple[int, int]:
        return self.config.vocab_size, self.config.hidden_size

    def final_norm(self, checkpoint: Checkpoint) -> MlxBuffer:
        return checkpoint.vector("norm", self.config.hidden_size)

    def __call__(self, enc: Encoder, inputs: StepInputs, layers: Sequence[LayerCache]) -> MlxBuffer:
        """The hidden states [batch * queries, hidden_size] of a step's tokens."""
        return self.hidden(enc, self.embedded(enc, inputs.tokens), inputs, layers)

    def hidden(self, enc: Encoder, x: MlxBuffer, inputs: StepInputs, layers: Sequence[LayerCache]) -> MlxBuffer:
        """Runs all layers on hidden states."""
        for index, (layer, cache) in enumerate(zip(self.layers, layers, strict=True)):
            with region(f"layer {index}"):
                x = layer(enc, x, inputs, cache)
        return x

    def embedded(self, enc: Encoder, tokens: MlxBuffer) -> MlxBuffer:
        return self.embed_tokens.rows(enc, tokens, self.dtype)

    def logits(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        """The logits of hidden states [..., hidden_size]."""
        logits = self.lm_head(enc, rms_norm(enc, x, self.norm, eps=self.config.norm_eps))
        cap = self.config.final_softcap
        return logits if cap is None else softcap(enc, logits, cap)

    def make_cache(
        self,
        *,
        batch: int = 1,
        capacity: int = 256,
        chunk: int = 512,
        dtype: Any = None,
        bits: Literal[8] | None = None,
    ) -> KVCache:
        """An empty KV cache for `batch` sequences; `dtype` defaults to the activation type."""
        kind = self.dtype if dtype is None else DType.of(dtype)
        options = {"batch": batch, "capacity": capacity, "chunk": chunk}
        return KVCache(self.device, self.config, dtype=kind, bits=bits, **options)

    def make_decoder(self, cache: KVCache, sampling: Sampling | None = None) -> Decoder:
        """A decoder over the sequences of a cache."""
        return Decoder(self, cache, sampling)

    def __repr__(self) -> str:
        return f"<{self.config.model_type} of {self.config.n_layers} layers, {self.path.name}>"


Model = Llama
"""The class that `load` uses for this architecture."""
