"""Tiny random models in real file formats, to try code without a download."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidArgument
from .extras import extra
from .tokenizer.pieces import byte_alphabet

__all__ = ["write_tiny"]

_HIDDEN, _WIDE, _HEADS, _KV_HEADS, _HEAD_DIM, _POSITIONS = 64, 96, 4, 2, 32, 512
_COMMON = {
    "hidden_size": _HIDDEN,
    "intermediate_size": _WIDE,
    "num_hidden_layers": 2,
    "num_attention_heads": _HEADS,
    "max_position_embeddings": _POSITIONS,
}


def write_tiny(folder: Path | str, family: str = "llama", *, seed: int = 0) -> Path:
    """Writes a folder with config.json, model.safetensors and tokenizer.json; `family` is "llama" or "bert"."""
    if family not in ("llama", "bert"):
        raise InvalidArgument(f"write_tiny: family is {family!r}, expected 'llama' or 'bert'")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    core = _bytes() if family == "llama" else _letters()
    vocab = core.get_vocab_size()
    config, shapes = _llama(vocab) if family == "llama" else _bert(vocab)
    rng = np.random.default_rng(seed)
    weights = {name: _random(rng, name, shape) for name, shape in shapes.items()}
    extra("safetensors.numpy").save_file(weights, str(place / "model.safetensors"))
    core.save(str(place / "tokenizer.json"))
    (place / "config.json").write_text(json.dumps({**config, "model_type": family, "vocab_size": vocab}))
    ends = {"eos_token": "<eos>"} if family == "llama" else {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    (place / "tokenizer_config.json").write_text(json.dumps({**ends, "chat_template": _TEMPLATE}))
    return place


_TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


def _random(rng: Any, name: str, shape: tuple[int, ...]) -> Any:
    if len(shape) == 1:
        return np.full(shape, float("orm" in name and name.endswith("weight")), np.float32)
    return (rng.normal(size=shape) * shape[-1] ** -0.5 * 1.5).astype(np.float32)


def _llama(vocab: int) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    width, kv_width = _HEADS * _HEAD_DIM, _KV_HEADS * _HEAD_DIM
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm": (_HIDDEN,),
        "self_attn.q_proj": (width, _HIDDEN),
        "self_attn.k_proj": (kv_width, _HIDDEN),
        "self_attn.v_proj": (kv_width, _HIDDEN),
        "self_attn.o_proj": (_HIDDEN, width),
        "post_attention_layernorm": (_HIDDEN,),
        "mlp.gate_proj": (_WIDE, _HIDDEN),
        "mlp.up_proj": (_WIDE, _HIDDEN),
        "mlp.down_proj": (_HIDDEN, _WIDE),
    }
    shapes = {f"model.layers.{n}.{name}.weight": shape for n in range(2) for name, shape in layer.items()}
    shapes |= {"model.embed_tokens.weight": (vocab, _HIDDEN), "model.norm.weight": (_HIDDEN,)}
    config = {"num_key_value_heads": _KV_HEADS, "head_dim": _HEAD_DIM, "tie_word_embeddings": True}
    return {**_COMMON, **config, "rms_norm_eps": 1e-5, "eos_token_id": vocab - 1}, shapes


def _bert(vocab: int) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    linears = {f"attention.self.{name}": (_HIDDEN, _HIDDEN) for name in ("query", "key", "value")}
    linears |= {"attention.output.dense": (_HIDDEN, _HIDDEN)}
    linears |= {"intermediate.dense": (_WIDE, _HIDDEN), "output.dense": (_HIDDEN, _WIDE)}
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in (f"encoder.layer.{n}." for n in range(2)):
        for name, (out, depth) in linears.items():
            shapes |= {f"{layer}{name}.weight": (out, depth), f"{layer}{name}.bias": (out,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{layer}{name}.{part}": (_HIDDEN,) for part in ("weight", "bias")}
    for name, rows in (("word", vocab), ("position", _POSITIONS), ("token_type", 2)):
        shapes[f"embeddings.{name}_embeddings.weight"] = (rows, _HIDDEN)
    shapes |= {f"embeddings.LayerNorm.{part}": (_HIDDEN,) for part in ("weight", "bias")}
    return {**_COMMON, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}, shapes


def _bytes() -> Any:
    """A tokenizer with a token per byte and an end token."""
    tokenizers = extra("tokenizers")
    vocab = {letter: number for number, letter in enumerate(sorted(byte_alphabet()))}
    core = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    core.add_special_tokens(["<eos>"])
    return core


def _letters() -> Any:
    """A WordPiece tokenizer with a token per letter, at the start of and inside a word."""
    tokenizers = extra("tokenizers")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters), *".,!?'"]
    vocab = {name: number for number, name in enumerate(names)}
    core = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    core.normalizer = tokenizers.normalizers.BertNormalizer()
    core.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    core.decoder = tokenizers.decoders.WordPiece()
    core.add_special_tokens(names[:4])
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    core.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return core
