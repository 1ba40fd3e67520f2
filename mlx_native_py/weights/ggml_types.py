"""GGML block formats: values and bytes per block."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GGML_TYPES", "GgmlType"]


@dataclass(frozen=True, slots=True)
class GgmlType:
    """A block format; `code` is its number in GGUF files."""

    name: str
    code: int
    values: int
    """Values of a block."""
    bytes: int
    """Bytes of a block."""
    span: int
    """Values that a kernel unpacks at once."""

    def row_bytes(self, length: int) -> int:
        return length // self.values * self.bytes

    def __str__(self) -> str:
        return self.name


GGML_TYPES = {
    each.name: each
    for each in (
        GgmlType("Q4_0", 2, 32, 18, 32),
        GgmlType("Q4_1", 3, 32, 20, 32),
        GgmlType("Q5_0", 6, 32, 22, 32),
        GgmlType("Q5_1", 7, 32, 24, 32),
        GgmlType("Q8_0", 8, 32, 34, 32),
        GgmlType("Q2_K", 10, 256, 84, 16),
        GgmlType("Q3_K", 11, 256, 110, 16),
        GgmlType("Q4_K", 12, 256, 144, 32),
        GgmlType("Q5_K", 13, 256, 176, 32),
        GgmlType("Q6_K", 14, 256, 210, 16),
        GgmlType("IQ4_NL", 20, 32, 18, 32),
    )
}
