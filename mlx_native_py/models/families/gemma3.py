"""Gemma 3: Gemma 2 with query and key norms instead of soft caps, and a separate rope for sliding layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..checkpoint import Layer
from ..rope import RotaryEmbedding
from . import gemma2, qwen3

__all__ = ["Gemma3", "Gemma3Attention", "Gemma3Block", "Model"]


class Gemma3Attention(qwen3.Qwen3Attention):
    """Attention with query and key norms before the rope."""

    def __init__(self, w: Layer, rope: RotaryEmbedding) -> None:
        super().__init__(w, rope, norm_plus=gemma2.norm_plus(w.config.is_gguf))


class Gemma3Block(gemma2.Gemma2Block):
    """One layer."""

    attention = Gemma3Attention


class Gemma3(gemma2.Gemma2):
    """The text model of Gemma 3: five of six layers use a sliding window."""

    block = Gemma3Block
    layers_of_27b = 62
    defaults: ClassVar[Mapping[str, Any]] = {
        "head_dim": 256,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 262_208,
        "query_pre_attn_scalar": 256,
        "tie_word_embeddings": True,
    }


Model = Gemma3
"""The class that `load` uses for this architecture."""
