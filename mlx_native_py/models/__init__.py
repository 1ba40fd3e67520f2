"""Models: from a file that people have to text and embeddings; one module per family, found by its name."""

from __future__ import annotations

from .cache import KVCache, LayerCache, Place
from .chat import ChatTemplate
from .config import Config
from .decoder import Decoder, Sampling
from .fetch import FetchError, model_path
from .generation import Generated, generate_batch_ids, generate_ids
from .loading import families
from .loading import load as load_model
from .stream import TextStream
from .text import GenerationResponse, embed, generate, load, prompt_ids, stream_generate
from .tokenizer import Tokenizer

__all__ = [
    "ChatTemplate",
    "Config",
    "Decoder",
    "FetchError",
    "Generated",
    "GenerationResponse",
    "KVCache",
    "LayerCache",
    "Place",
    "Sampling",
    "TextStream",
    "Tokenizer",
    "embed",
    "families",
    "generate",
    "generate_batch_ids",
    "generate_ids",
    "load",
    "load_model",
    "model_path",
    "prompt_ids",
    "stream_generate",
]
