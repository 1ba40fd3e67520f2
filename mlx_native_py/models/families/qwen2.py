"""Qwen 2 and 2.5: Llama with biases on queries, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from . import llama

__all__ = ["Model", "Qwen2"]


class Qwen2(llama.Llama):
    """Qwen 2; biases are used wherever a file has them."""

    defaults: ClassVar[Mapping[str, Any]] = {"rope_theta": 1_000_000.0, "use_sliding_window": False}
    gguf_defaults: ClassVar[Mapping[str, Any]] = {}


Model = Qwen2
"""The class that `load` uses for this architecture."""
