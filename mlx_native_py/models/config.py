"""The configuration of a model, from config.json or GGUF metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..json_fields import Fields
from .rope import Rope, read_rope

__all__ = ["Config", "fields_of_gguf"]

# Names in config.json, and the GGUF keys of the same values, after the architecture's name and a dot.
_GGUF = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "layer_norm_eps": "attention.layer_norm_epsilon",
    "max_position_embeddings": "context_length",
    "vocab_size": "vocab_size",
    "rope_theta": "rope.freq_base",
    "rope_local_base_freq": "rope.freq_base_swa",
    "sliding_window": "attention.sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "pooling_type": "pooling_type",
}
_MAX_LAYERS, _MAX_HEAD = 4096, 4096


@dataclass(frozen=True, slots=True)
class Config:
    """The hyperparameters of a model."""

    model_type: str
    hidden_size: int
    intermediate_size: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    norm_eps: float
    max_positions: int
    rope: Rope
    local_rope: Rope
    """The rope of sliding-window layers."""
    sliding: tuple[bool, ...]
    """Per layer, whether it attends only to the last `sliding_window` tokens."""
    sliding_window: int | None
    query_scale: float
    attn_softcap: float | None
    final_softcap: float | None
    tie_embeddings: bool
    stop_ids: tuple[int, ...]
    is_gguf: bool
    quantization: Mapping[str, Any] = field(default_factory=dict)
    """MLX's table: `bits` and `group_size`, with overrides per module."""
    pooling: str = ""
    """Of encoders: "mean" or "cls", if the file says."""

    @classmethod
    def read(cls, model_type: str, fields: Fields, *, is_gguf: bool) -> Config:
        """Reads a table with the names of config.json."""
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        head_dim = fields.count("head_dim", max(hidden // heads, 1), most=_MAX_HEAD)
        layers = fields.count("num_hidden_layers", most=_MAX_LAYERS)
        window = fields.count("sliding_window") if fields.get("sliding_window") else None
        rope, local = read_rope(fields, head_dim)
        kv_heads = fields.count("num_key_value_heads", heads)
        if heads % kv_heads:
            raise fields.wrong("num_key_value_heads", f"a number that divides {heads}, the number of heads")
        return cls(
            model_type=model_type,
            hidden_size=hidden,
            intermediate_size=fields.count("intermediate_size"),
            n_layers=layers,
            n_heads=heads,
            n_kv_heads=kv_heads,
            head_dim=head_dim,
            vocab_size=fields.count("vocab_size"),
            norm_eps=fields.positive("rms_norm_eps", fields.positive("layer_norm_eps", 1e-6)),
            max_positions=fields.count("max_position_embeddings", 4096),
            rope=rope,
            local_rope=local,
            sliding=_sliding(fields, layers, window),
            sliding_window=window,
            query_scale=fields.positive("query_pre_attn_scalar", head_dim) ** -0.5,
            attn_softcap=_optional(fields, "attn_logit_softcapping"),
            final_softcap=_optional(fields, "final_logit_softcapping"),
            tie_embeddings=fields.flag("tie_word_embeddings", False),
            stop_ids=fields.ids("eos_token_id"),
            is_gguf=is_gguf,
            quantization=dict((fields.table("quantization") or fields.table("quantization_config")).plain((dict,))),
            pooling=str(fields.get("pooling", "")),
        )


def _optional(fields: Fields, key: str) -> float | None:
    return fields.positive(key) if key in fields else None


def _sliding(fields: Fields, layers: int, window: int | None) -> tuple[bool, ...]:
    """From `layer_types`, or else every layer but the last of each pattern."""
    if window is None or not fields.flag("use_sliding_window", True):
        return (False,) * layers
    kinds = fields.get("layer_types")
    if kinds is not None:
        if not isinstance(kinds, Sequence) or len(kinds) != layers:
            raise fields.wrong("layer_types", f"a list of {layers}, one for each layer")
        return tuple(kind == "sliding_attention" for kind in kinds)
    pattern = fields.count("sliding_window_pattern") if "sliding_window_pattern" in fields else layers + 1
    return tuple((layer + 1) % pattern != 0 for layer in range(layers))


def fields_of_gguf(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """GGUF metadata under the names of config.json."""
    arch = metadata.get("general.architecture")
    table = {name: metadata.get(f"{arch}.{key}") for name, key in _GGUF.items()}
    tokens = metadata.get("tokenizer.ggml.tokens")
    if table["vocab_size"] is None and isinstance(tokens, Sequence):
        table["vocab_size"] = len(tokens)
    scaling = {"rope_type": metadata.get(f"{arch}.rope.scaling.type", "default")}
    factor = metadata.get(f"{arch}.rope.scaling.factor", metadata.get(f"{arch}.rope.scale_linear"))
    if factor:
        scaling["factor"] = factor
    stops = [metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot")]
    return {
        **table,
        "model_type": arch,
        "rope_dims": metadata.get(f"{arch}.rope.dimension_count"),
        "rope_scaling": scaling,
        "eos_token_id": list(dict.fromkeys(stop for stop in stops if stop is not None)),
    }
