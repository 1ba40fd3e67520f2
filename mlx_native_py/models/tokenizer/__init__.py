"""Tokenizers: from tokenizer.json or the vocabulary in a GGUF file."""

from __future__ import annotations

from .stream import TextStream
from .tokenizer import Tokenizer

__all__ = ["TextStream", "Tokenizer"]
