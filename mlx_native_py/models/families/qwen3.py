"""Qwen 3: Llama with query and key norms per head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...encoder import Encoder
from ...memory.buffer import MlxBuffer
from ...ops import head_norm_rope
from ..checkpoint import Layer
from ..rope import RotaryEmbedding
from . import llama

__all__ = ["Model", "Qwen3", "Qwen3Attention", "Qwen3Block"]


class Qwen3Attention(llama.LlamaAttention):
    """Attention with query and key norms before the rope."""

    def __init__(self, w: Layer, rope: RotaryEmbedding, norm_plus: float = 0.0) -> None:
        super().__init__(w, rope)
        self.eps = w.config.norm_eps
        self.q_norm = w.vector("self_attn.q_norm", self.head_dim, plus=norm_plus)
        self.k_norm = w.vector("self_attn.k_norm", self.head_dim, plus=norm_plus)

    def rotated(self, enc: Encoder, q: MlxBuffer, k: MlxBuffer, positions: MlxBuffer) -> tuple[MlxBuffer, MlxBuffer]:
        options = self.rope.options
        return (
            head_norm_rope(enc, q, self.q_norm, positions, eps=self.eps, **options),
            head_norm_rope(enc, k, self.k_norm, positions, eps=self.eps, **options),
        )


class Qwen3Block(llama.LlamaBlock):
    """One layer."""

    attention = Qwen3Attention


class Qwen3(llama.Llama):
    """Qwen3."""

    block = Qwen3Block
    defaults: ClassVar[Mapping[str, Any]] = {"rope_theta": 1_000_000.0, "use_sliding_window": False}
    gguf_defaults: ClassVar[Mapping[str, Any]] = {}


Model = Qwen3
"""The class that `load` uses for this architecture."""
