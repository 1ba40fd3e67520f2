"""Model files: tensors by name from GGUF and safetensors, memory-mapped and checked."""

from __future__ import annotations

from .gguf import GgufFile, open_gguf
from .safetensors import SafetensorsFile, open_safetensors
from .tensors import Tensor, TensorFile

__all__ = ["GgufFile", "SafetensorsFile", "Tensor", "TensorFile", "open_gguf", "open_safetensors"]
