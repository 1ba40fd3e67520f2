"""Model weights: the tensors of a model file under standard names, as buffers on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..device import MlxDevice
from ..dtypes import DType
from ..errors import ModelFileError
from ..memory.buffer import MlxBuffer
from ..weights import Tensor, TensorFile
from .config import Config
from .linear import Affine, Blocks, Dense, Linear
from .names import Names
from .rope import Rope, RotaryEmbedding

__all__ = ["Checkpoint", "Layer"]

_FLOATS = ("f32", "f16", "bf16")


class Checkpoint:
    """Weights by their Hugging Face names, without the common prefix."""

    def __init__(
        self,
        file: TensorFile,
        config: Config,
        device: MlxDevice,
        dtype: DType = DType.F32,
        gguf_names: Mapping[str, str] | None = None,
    ) -> None:
        self.file = file
        self.config = config
        self.device = device
        self.dtype = dtype
        """The type of activations, norms and biases."""
        self.name: Callable[[str], str] = Names(file, config.is_gguf, gguf_names)
        """Maps a module to its name in the file."""

    def __contains__(self, name: str) -> bool:
        return f"{self.name(name)}.weight" in self.file

    def rows(self, name: str) -> int:
        """The number of rows of a table, if the config does not say."""
        return (*self._tensor(f"{self.name(name)}.weight").shape, 0)[0]

    def linear(self, name: str, out: int, depth: int) -> Linear:
        """The weight [out, depth] of a linear module or embedding table, and its bias, if there is one."""
        full = self.name(name)
        weight = self._tensor(f"{full}.weight")
        bias = self.vector(name, out, part="bias") if f"{full}.bias" in self.file else None
        if f"{full}.scales" in self.file:
            return self._affine(full, weight, bias, (out, depth))
        self._check(weight, (out, depth))
        if weight.packed:
            return Blocks(weight.buffer(self.device), bias, weight.format)
        if weight.format not in _FLOATS:
            raise self._wrong(weight, f"is {weight.format}, expected {', '.join(_FLOATS)}, or a quantised format")
        if self.dtype is DType.F32 or weight.format == str(self.dtype):
            return Dense(weight.buffer(self.device), bias)
        return Dense(self.device.buffer(weight.numpy(), self.dtype, label=weight.name), bias)

    def _affine(self, full: str, weight: Tensor, bias: MlxBuffer | None, shape: tuple[int, int]) -> Affine:
        scales, biases = (self._tensor(f"{full}.{part}") for part in ("scales", "biases"))
        table = self.config.quantization
        how = {**table, **own} if isinstance(own := table.get(full), Mapping) else table
        mode, bits, group = how.get("mode", "affine"), how.get("bits", 4), how.get("group_size", 64)
        if mode != "affine" or not all(type(each) is int and each > 0 for each in (bits, group)):
            message = f"is quantised by {mode!r}, {bits!r} bits in groups of {group!r}"
            raise self._wrong(weight, f"{message}, expected 'affine' and whole numbers")
        out, depth = shape
        self._check(weight, (out, depth * bits // 32))
        for part in (scales, biases):
            self._check(part, (out, depth // group))
        words, scale, offset = (tensor.buffer(self.device) for tensor in (weight, scales, biases))
        return Affine(words, bias, scale, offset, group, bits)

    def vector(self, name: str, length: int, *, part: str = "weight", plus: float = 0.0) -> MlxBuffer:
        """A norm's weight or a bias, in the activation type."""
        tensor = self._tensor(f"{self.name(name)}.{part}")
        self._check(tensor, (length,))
        if tensor.format not in _FLOATS:
            raise self._wrong(tensor, f"is {tensor.format}, expected {', '.join(_FLOATS)}")
        if not plus and tensor.format == str(self.dtype):
            return tensor.buffer(self.device)
        values = tensor.numpy().astype(np.float32) + np.float32(plus)
        return self.device.buffer(values, self.dtype, label=tensor.name)

    def rotary(self, rope: Rope) -> RotaryEmbedding:
        """A rotary embedding, with the frequency factors of its config or of the file."""
        if rope.factors:
            return RotaryEmbedding(rope, self.device.buffer(np.array(rope.factors, np.float32)))
        if not self.config.is_gguf or "rope_freqs.weight" not in self.file:
            return RotaryEmbedding(rope, None)
        tensor = self._tensor("rope_freqs.weight")
        self._check(tensor, (rope.dims // 2,))
        return RotaryEmbedding(rope, self.device.buffer(tensor.numpy(), DType.F32))

    def _tensor(self, name: str) -> Tensor:
        if name not in self.file:
            raise ModelFileError(self.file.path, name, None, f"missing, but {self.config.model_type} needs it")
        return self.file[name]

    def _check(self, tensor: Tensor, shape: tuple[int, ...]) -> None:
        if tensor.shape != shape:
            raise self._wrong(tensor, f"has shape {list(tensor.shape)}, expected {list(shape)}")

    def _wrong(self, tensor: Tensor, message: str) -> ModelFileError:
        return ModelFileError(tensor.file.path, tensor.name, tensor.offset, message)


class Layer:
    """The weights of one layer, by names without the layer's prefix."""

    def __init__(self, checkpoint: Checkpoint, prefix: str) -> None:
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self._prefix = prefix

    def linear(self, name: str, out: int, depth: int) -> Linear:
        return self.checkpoint.linear(self._prefix + name, out, depth)

    def vector(self, name: str, length: int, **options: Any) -> MlxBuffer:
        return self.checkpoint.vector(self._prefix + name, length, **options)
