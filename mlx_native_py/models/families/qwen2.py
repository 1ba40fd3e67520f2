"""Qwen 2 and 2.5: Llama with biases on queries, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from . import llama

__all__ = ["Model"]


class Model(llama.Model):
    """Qwen2; biases are taken up wherever a file has them."""

    defaults: ClassVar[Mapping[str, Any]] = {"rope_theta": 1_000_000.0, "use_sliding_window": False}
    gguf_defaults: ClassVar[Mapping[str, Any]] = {}
