"""Tiny random models, written as people's files are: GGUF, and MLX folders of safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
from safetensors.numpy import save_file

from models.reference import Array, Table

BASE: Table = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 96,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "eos_token_id": [1],
}
GEMMA: Table = {**BASE, "sliding_window": 8, "num_hidden_layers": 3, "query_pre_attn_scalar": 24}
PARTS = ("weight", "scales", "biases")
QUANTIZED = ("_proj", "embed_tokens", "lm_head")


def random_weights(config: Table, seed: int = 0, *, biases: bool = False, head_norms: bool = False) -> dict[str, Array]:
    """Weights under the names of Hugging Face."""
    rng = np.random.default_rng(seed)
    hidden, wide, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    width, kv_width = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    gemma = config["model_type"].startswith("gemma")

    def matrix(rows: int, columns: int) -> Array:
        return np.asarray(rng.normal(size=(rows, columns)) * columns**-0.5 * 1.5, np.float32)

    def vector(length: int) -> Array:
        return (rng.normal(size=length) * 0.2 + (not gemma)).astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(config["vocab_size"], hidden), "model.norm.weight": vector(hidden)}
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = matrix(config["vocab_size"], hidden)
    norms = ["input_layernorm", "post_attention_layernorm"]
    norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"] if gemma else []
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name in norms:
            weights[f"{at}{name}.weight"] = vector(hidden)
        for name, rows in (("q", width), ("k", kv_width), ("v", kv_width)):
            weights[f"{at}self_attn.{name}_proj.weight"] = matrix(rows, hidden)
            if biases:
                weights[f"{at}self_attn.{name}_proj.bias"] = matrix(1, rows)[0] * 4
        for name in ("q_norm", "k_norm") if head_norms else ():
            weights[f"{at}self_attn.{name}.weight"] = vector(dim)
        weights[f"{at}self_attn.o_proj.weight"] = matrix(hidden, width)
        for name, shape in (("gate", (wide, hidden)), ("up", (wide, hidden)), ("down", (hidden, wide))):
            weights[f"{at}mlp.{name}_proj.weight"] = matrix(*shape)
    return weights


def write_gguf(path: Path, config: Table, weights: dict[str, Array], kind: str = "Q4_1") -> dict[str, Array]:
    """Writes a GGUF file as llama.cpp's converter does; answers the values that are in it, as it orders them."""
    family: str = config["model_type"]
    arch = {"gemma3_text": "gemma3", "mistral": "llama"}.get(family, family)
    writer = gguf.GGUFWriter(path, arch)
    _metadata(writer, config)
    number = next(each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(number, config["num_hidden_layers"])
    stored = {}
    for name, given in weights.items():
        array = _converted(name, given, config, arch)
        module, _, part = name.rpartition(".")
        target = f"{names.get_name(module) or module}.{part}"
        if array.ndim == 2:
            format = getattr(gguf.GGMLQuantizationType, kind)
            packed = q6_k(array) if kind == "Q6_K" else gguf.quants.quantize(array, format)
            writer.add_tensor(target, packed, raw_dtype=format)
            array = gguf.quants.dequantize(packed, format)
        else:
            writer.add_tensor(target, array)
        # The reference adds Gemma's 1 itself.
        own_one = arch.startswith("gemma") and name.endswith("norm.weight")
        stored[name] = np.subtract(array, own_one, dtype=np.float32)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return stored


def q6_k(array: Array) -> Array:
    """Blocks of 256 values in 6 bits with a scale for each 16, which gguf reads and does not write."""
    runs = array.reshape(-1, 16, 16)
    largest = np.maximum(np.abs(runs).max(-1), 1e-12)
    whole = (largest.max(-1, keepdims=True) / 31 / 127).astype(np.float16)
    scales = np.maximum(np.rint(largest / 31 / whole), 1).astype(np.int8)
    codes = np.clip(np.rint(runs / (whole[:, :, None] * scales[:, :, None].astype(np.float32))) + 32, 0, 63)
    halves = codes.astype(np.uint8).reshape(-1, 2, 4, 32)
    low, high = halves & 15, halves >> 4
    nibbles = (low[:, :, :2] | low[:, :, 2:] << 4).reshape(-1, 128)
    pairs = (high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6).reshape(-1, 64)
    blocks = np.concatenate([nibbles, pairs, scales.view(np.uint8), whole.view(np.uint8)], axis=1)
    assert np.abs(gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q6_K).reshape(runs.shape) - runs).max() < 0.1
    return blocks.reshape(array.shape[0], -1)


def _metadata(writer: gguf.GGUFWriter, config: Table) -> None:
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_eos_token_id(config["eos_token_id"][0])
    if "sliding_window" in config:
        writer.add_sliding_window(config["sliding_window"])
    if "attn_logit_softcapping" in config:
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])


def _converted(name: str, array: Array, config: Table, arch: str) -> Array:
    if arch == "llama" and ("q_proj" in name or "k_proj" in name):
        heads = config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
        halves = array.reshape(heads, 2, -1, *array.shape[1:])
        return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(array.shape)
    if arch.startswith("gemma") and name.endswith("norm.weight"):
        return array + np.float32(1)
    return array


def write_mlx(
    folder: Path,
    config: Table,
    weights: dict[str, Array],
    *,
    bits: int = 4,
    group_size: int = 32,
    dtype: Any = mx.float32,
    overrides: dict[str, Table] | None = None,
) -> dict[str, Array]:
    """Writes what mlx_lm.convert writes with -q; answers the values that are in it."""
    table: Table = {"bits": bits, "group_size": group_size, **(overrides or {})}
    tensors: dict[str, mx.array] = {}
    stored: dict[str, Array] = {}
    for name, array in weights.items():
        module, _, part = name.rpartition(".")
        given = mx.array(array).astype(dtype)
        if array.ndim == 2 and module.endswith(QUANTIZED):
            how = {key: {**table, **table.get(module, {})}[key] for key in ("bits", "group_size")}
            parts = mx.quantize(given, **how)
            tensors |= {f"{module}.{each}": value for each, value in zip(PARTS, parts, strict=True)}
            codes, scales, biases = parts
            given = mx.dequantize(codes, scales.astype(mx.float32), biases.astype(mx.float32), **how)
        else:
            tensors[name] = given
        stored[name] = np.array(given.astype(mx.float32))
    folder.mkdir(exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), tensors, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps({**config, "quantization": table}))
    return stored


def write_plain(folder: Path, config: Table, weights: dict[str, Array], dtype: Any = np.float16) -> dict[str, Array]:
    """Writes a folder of Hugging Face, not quantised; answers the values that are in it."""
    folder.mkdir(exist_ok=True)
    rounded = {name: array.astype(dtype) for name, array in weights.items()}
    save_file(rounded, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return {name: array.astype(np.float32) for name, array in rounded.items()}
