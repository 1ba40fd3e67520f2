"""Module names in model files: Hugging Face's names with a prefix, or GGUF's own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import ModelFileError
from ..weights import TensorFile

__all__ = ["Names"]

_GGUF = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_LAYER = re.compile(r"^(?:layers|encoder\.layer)\.(\d+)\.(.+)$")


class Names:
    """Maps Hugging Face module names, without their common prefix, to the names in a file."""

    def __init__(self, file: TensorFile, is_gguf: bool, gguf_names: Mapping[str, str] | None = None) -> None:
        self._gguf_names = {**_GGUF, **(gguf_names or {})} if is_gguf else None
        self._prefix = "" if is_gguf else _prefix(file)

    def __call__(self, module: str) -> str:
        """The name of a module in the file."""
        if self._gguf_names is None:
            return (self._prefix.removesuffix("model.") if module == "lm_head" else self._prefix) + module
        if match := _LAYER.match(module):
            return f"blk.{match[1]}.{self._gguf_names[match[2]]}"
        return self._gguf_names[module]


def _prefix(file: TensorFile) -> str:
    """The prefix of the embedding table: empty, `model.`, `language_model.model.`, `bert.`, ..."""
    for table in ("embed_tokens.weight", "embeddings.word_embeddings.weight"):
        prefixes = [name.removesuffix(table) for name in file if name.endswith(table)]
        if prefixes:
            return min(prefixes, key=len)
    raise ModelFileError(file.path, "embed_tokens.weight", None, "missing: this is not a text model")
