"""Language models: loading, text generation and embeddings; `families` has one module per architecture."""

from __future__ import annotations

from .cache import KVCache, LayerCache, StepInputs
from .chat import ChatTemplate
from .config import Config
from .decoder import Decoder, Sampling
from .fetch import FetchError, model_path
from .generation import GenerationResponse, generate_batch_ids, generate_ids
from .loading import architectures
from .loading import load as load_model
from .text import embed, generate, load, prompt_ids, stream_generate
from .tokenizer import TextStream, Tokenizer

__all__ = [
    "ChatTemplate",
    "Config",
    "Decoder",
    "FetchError",
    "GenerationResponse",
    "KVCache",
    "LayerCache",
    "Sampling",
    "StepInputs",
    "TextStream",
    "Tokenizer",
    "architectures",
    "embed",
    "generate",
    "generate_batch_ids",
    "generate_ids",
    "load",
    "load_model",
    "model_path",
    "prompt_ids",
    "stream_generate",
]
