"""Weights in files: tensors by name, read where they lie, and nothing believed before it is checked."""

from __future__ import annotations

from .gguf import GgufFile, open_gguf
from .safetensors import SafetensorsFile, open_safetensors
from .tensors import Tensor, TensorFile

__all__ = ["GgufFile", "SafetensorsFile", "Tensor", "TensorFile", "open_gguf", "open_safetensors"]
