"""Qwen 2 and 2.5: Llama with biases on queries, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from . import llama

__all__ = ["Model", "Qwen2"]


class Qwen2(llama.Llama):
    """Qwen2; biases are taken up wherever a file has them."""

    defaults: ClassVar[Mapping[str, Any]] = {"rope_theta": 1_000_000.0, "use_sliding_window": False}
    gguf_defaults: ClassVar[Mapping[str, Any]] = {}


Model = Qwen2
"""What `load` makes of a file of this architecture."""
