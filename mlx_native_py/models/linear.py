"""Linear layers and embedding tables over dense, MLX-quantised and GGML weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ..dtypes import DType
from ..encoder import Encoder
from ..memory.buffer import MlxBuffer
from ..ops import add, cast, embedding, ggml_embedding, ggml_matmul, matmul, quantized_embedding, quantized_matmul

__all__ = ["Affine", "Blocks", "Dense", "Linear"]


@dataclass(frozen=True)
class Linear(ABC):
    """y = x W^T + bias, with W [out, in]; W can also serve as an embedding table."""

    weight: MlxBuffer
    bias: MlxBuffer | None

    def __call__(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        y = self.product(enc, x)
        return y if self.bias is None else add(enc, y, self.bias)

    @abstractmethod
    def product(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        """x W^T."""

    @abstractmethod
    def rows(self, enc: Encoder, ids: MlxBuffer, dtype: DType) -> MlxBuffer:
        """Rows of W, by index."""

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes


@dataclass(frozen=True)
class Dense(Linear):
    """Dense weights in f32, f16 or bf16."""

    def __call__(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        return matmul(enc, x, self.weight, transpose_b=True, bias=self.bias)

    def product(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        return matmul(enc, x, self.weight, transpose_b=True)

    def rows(self, enc: Encoder, ids: MlxBuffer, dtype: DType) -> MlxBuffer:
        return _as(enc, embedding(enc, ids, self.weight), dtype)


@dataclass(frozen=True)
class Blocks(Linear):
    """Weights in a GGML block format."""

    format: str

    def product(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        return ggml_matmul(enc, x, self.weight, self.format)

    def rows(self, enc: Encoder, ids: MlxBuffer, dtype: DType) -> MlxBuffer:
        return ggml_embedding(enc, ids, self.weight, self.format, dtype=dtype)


@dataclass(frozen=True)
class Affine(Linear):
    """MLX's packed weights, with a scale and a bias per group."""

    scales: MlxBuffer
    biases: MlxBuffer
    group_size: int
    bits: int

    def product(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        parts = self.weight, self.scales, self.biases
        return quantized_matmul(enc, x, *parts, group_size=self.group_size, bits=self.bits)

    def rows(self, enc: Encoder, ids: MlxBuffer, dtype: DType) -> MlxBuffer:
        parts = self.weight, self.scales, self.biases
        kind = dtype if dtype is self.scales.dtype else DType.F32
        rows = quantized_embedding(enc, ids, *parts, group_size=self.group_size, bits=self.bits, dtype=kind)
        return _as(enc, rows, dtype)

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes + self.scales.nbytes + self.biases.nbytes


def _as(enc: Encoder, x: MlxBuffer, dtype: DType) -> MlxBuffer:
    return x if x.dtype is dtype else cast(enc, x, dtype)
