"""Models: from a file that people have to tokens and embeddings; one module per family, found by its name."""

from __future__ import annotations

from .cache import KVCache, LayerCache, Place
from .config import Config
from .decoder import Decoder, Sampling
from .generate import Generated, generate_batch_ids, generate_ids
from .loading import families, load

__all__ = [
    "Config",
    "Decoder",
    "Generated",
    "KVCache",
    "LayerCache",
    "Place",
    "Sampling",
    "families",
    "generate_batch_ids",
    "generate_ids",
    "load",
]
