"""Forward passes in numpy float32, without a cache: what every model's logits are held against."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]
Table = dict[str, Any]


class Reference:
    """A decoder of any of the families; `config` has the names of config.json, `weights` those of safetensors."""

    def __init__(self, config: Table, weights: dict[str, Array], *, traditional: bool = False) -> None:
        self.config, self.weights, self.traditional = config, weights, traditional
        self.n_heads = config["num_attention_heads"]
        self.n_kv_heads = config.get("num_key_value_heads", self.n_heads)
        self.head_dim: int = config.get("head_dim") or config["hidden_size"] // self.n_heads
        self.is_gemma = config["model_type"].startswith("gemma")
        self.factors: Any = 1.0

    def logits(self, tokens: list[int]) -> Array:
        """Of every position, [tokens, vocab]."""
        x = self.weights["model.embed_tokens.weight"][tokens]
        if self.is_gemma:
            x = x * np.float32(self.config["hidden_size"] ** 0.5)
        for layer in range(self.config["num_hidden_layers"]):
            x = self.block(x, layer)
        head = "lm_head.weight" if "lm_head.weight" in self.weights else "model.embed_tokens.weight"
        return self.capped(self.norm(x, "model.norm") @ self.weights[head].T, "final_logit_softcapping")

    def block(self, x: Array, layer: int) -> Array:
        at = f"model.layers.{layer}."
        attended = self.attention(self.norm(x, f"{at}input_layernorm"), layer)
        if not self.is_gemma:
            x = x + attended
            return x + self.mlp(self.norm(x, f"{at}post_attention_layernorm"), at)
        x = x + self.norm(attended, f"{at}post_attention_layernorm")
        fed = self.mlp(self.norm(x, f"{at}pre_feedforward_layernorm"), at)
        return x + self.norm(fed, f"{at}post_feedforward_layernorm")

    def mlp(self, x: Array, at: str) -> Array:
        gate = self.linear(x, f"{at}mlp.gate_proj")
        if self.is_gemma:
            inner = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
            acted = 0.5 * gate * (1 + np.tanh(inner))
        else:
            acted = gate / (1 + np.exp(-gate))
        return self.linear(acted * self.linear(x, f"{at}mlp.up_proj"), f"{at}mlp.down_proj")

    def attention(self, x: Array, layer: int) -> Array:
        at, tokens = f"model.layers.{layer}.self_attn.", len(x)
        q, k, v = (self.linear(x, f"{at}{each}_proj").reshape(tokens, -1, self.head_dim) for each in "qkv")
        if f"{at}q_norm.weight" in self.weights:
            q, k = self.norm(q, f"{at}q_norm"), self.norm(k, f"{at}k_norm")
        q, k = self.rope(q, layer), self.rope(k, layer)
        k, v = (np.repeat(each, self.n_heads // self.n_kv_heads, axis=1) for each in (k, v))
        scale: float = self.config.get("query_pre_attn_scalar", self.head_dim) ** -0.5
        scores = self.capped(np.einsum("qhd,khd->hqk", q, k) * np.float32(scale), "attn_logit_softcapping")
        rows, columns = np.arange(tokens)[:, None], np.arange(tokens)
        seen = columns <= rows
        if self.slides(layer):
            seen &= rows - columns < self.config["sliding_window"]
        scores = np.where(seen, scores, np.float32(-np.inf))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return self.linear(np.einsum("hqk,khd->qhd", weights, v).reshape(tokens, -1), f"{at}o_proj")

    def slides(self, layer: int) -> bool:
        if "layer_types" in self.config:
            return bool(self.config["layer_types"][layer] == "sliding_attention")
        pattern = self.config.get("sliding_window_pattern", {"gemma2": 2}.get(self.config["model_type"], 0))
        return bool(pattern and (layer + 1) % pattern)

    def rope(self, x: Array, layer: int) -> Array:
        config, scaling = self.config, self.config.get("rope_scaling") or {}
        local = self.slides(layer) and "rope_local_base_freq" in config
        base = config["rope_local_base_freq"] if local else config.get("rope_theta", 1e4)
        frequencies = base ** (-np.arange(0, self.head_dim, 2, dtype=np.float64) / self.head_dim)
        kind = scaling.get("rope_type", scaling.get("type"))
        if kind == "linear" and not local:
            frequencies = frequencies / scaling["factor"]
        if kind == "llama3":
            frequencies = llama3(frequencies, scaling)
        angles = np.arange(len(x))[:, None] * frequencies / self.factors
        cos, sin = (turn(angles)[:, None].astype(np.float32) for turn in (np.cos, np.sin))
        if self.traditional:
            a, b = x[..., 0::2], x[..., 1::2]
            return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def linear(self, x: Array, name: str) -> Array:
        y: Array = x @ self.weights[f"{name}.weight"].T
        return y + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else y

    def norm(self, x: Array, name: str) -> Array:
        weight = self.weights[f"{name}.weight"] + np.float32(self.is_gemma)
        mean = np.mean(x * x, -1, keepdims=True, dtype=np.float32)
        result: Array = x / np.sqrt(mean + np.float32(self.config.get("rms_norm_eps", 1e-6))) * weight
        return result

    def capped(self, x: Array, key: str) -> Array:
        cap = self.config.get(key)
        return x if cap is None else np.float32(cap) * np.tanh(x / np.float32(cap))


def llama3(frequencies: Any, scaling: Table) -> Any:
    """Hugging Face's `_compute_llama3_parameters`, by wavelengths."""
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    trained = scaling["original_max_position_embeddings"]
    lengths = 2 * np.pi / frequencies
    smooth = (trained / lengths - low) / (high - low)
    between = (1 - smooth) * frequencies / factor + smooth * frequencies
    result = np.where(lengths > trained / low, frequencies / factor, frequencies)
    return np.where((lengths <= trained / low) & (lengths >= trained / high), between, result)
