"""Gemma 2: norms before and after each sublayer, soft-capped logits, sliding windows in every other layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...encoder import Encoder
from ...memory.buffer import MlxBuffer
from ...ops import gelu_mul, rms_norm, rms_norm_add, scalar_mul
from ..cache import LayerCache, StepInputs
from ..checkpoint import Checkpoint, Layer
from ..rope import RotaryEmbedding
from . import llama

__all__ = ["Gemma2", "Gemma2Block", "Gemma2MLP", "Model", "norm_plus"]

POST_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
"""GGUF's names of the norms of a layer."""


def norm_plus(is_gguf: bool) -> float:
    """Norm weights are stored minus 1, except in GGUF files."""
    return 0.0 if is_gguf else 1.0


class Gemma2MLP(llama.LlamaMLP):
    """The gated feed-forward network, with GELU."""

    def gated(self, enc: Encoder, gate: MlxBuffer, up: MlxBuffer) -> MlxBuffer:
        return gelu_mul(enc, gate, up)


class Gemma2Block(llama.LlamaBlock):
    """One layer, with norms before and after attention and feed-forward."""

    mlp = Gemma2MLP

    def __init__(self, w: Layer, rope: RotaryEmbedding) -> None:
        hidden, plus, self.eps = w.config.hidden_size, norm_plus(w.config.is_gguf), w.config.norm_eps
        self.self_attn = self.attention(w, rope)
        self.feed_forward = self.mlp(w)
        self.input_layernorm = w.vector("input_layernorm", hidden, plus=plus)
        self.post_attention_layernorm = w.vector("post_attention_layernorm", hidden, plus=plus)
        self.pre_feedforward_layernorm = w.vector("pre_feedforward_layernorm", hidden, plus=plus)
        self.post_feedforward_layernorm = w.vector("post_feedforward_layernorm", hidden, plus=plus)

    def __call__(self, enc: Encoder, x: MlxBuffer, inputs: StepInputs, cache: LayerCache) -> MlxBuffer:
        h = rms_norm(enc, x, self.input_layernorm, eps=self.eps)
        h = self.self_attn(enc, h, inputs, cache)
        x = rms_norm_add(enc, h, x, self.post_attention_layernorm, eps=self.eps)
        h = self.feed_forward(enc, rms_norm(enc, x, self.pre_feedforward_layernorm, eps=self.eps))
        return rms_norm_add(enc, h, x, self.post_feedforward_layernorm, eps=self.eps)


class Gemma2(llama.Llama):
    """Gemma 2; embeddings are scaled and tied to the output head."""

    block: ClassVar[type[llama.LlamaBlock]] = Gemma2Block
    activations = ()
    defaults: ClassVar[Mapping[str, Any]] = {
        "head_dim": 256,
        "rms_norm_eps": 1e-6,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "sliding_window": 4096,
        "sliding_window_pattern": 2,
        "tie_word_embeddings": True,
    }
    gguf_defaults: ClassVar[Mapping[str, Any]] = {"query_pre_attn_scalar": None}
    gguf_names = POST_NORMS
    layers_of_27b: ClassVar[int] = 46

    @classmethod
    def completed(cls, table: Mapping[str, Any], *, is_gguf: bool) -> dict[str, Any]:
        complete = super().completed(table, is_gguf=is_gguf)
        # GGUF has no key for the query scale: the head size, except in the largest model (hidden size / heads).
        width, heads = complete.get("hidden_size"), complete.get("num_attention_heads")
        if is_gguf and complete.get("num_hidden_layers") == cls.layers_of_27b and width and heads:
            complete["query_pre_attn_scalar"] = width // heads if type(width) is type(heads) is int else None
        return complete

    def embedded(self, enc: Encoder, tokens: MlxBuffer) -> MlxBuffer:
        return scalar_mul(enc, super().embedded(enc, tokens), self.config.hidden_size**0.5)

    def final_norm(self, checkpoint: Checkpoint) -> MlxBuffer:
        return checkpoint.vector("norm", self.config.hidden_size, plus=norm_plus(self.config.is_gguf))


Model = Gemma2
"""The class that `load` uses for this architecture."""
