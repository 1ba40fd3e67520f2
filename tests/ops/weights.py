"""Quantised weights for the table: random ones, and what they mean, computed with numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np

from mlx_native_py import DType, MlxBuffer
from mlx_native_py.weights.ggml_types import GGML_TYPES

from .bench import Array, Bench

AFFINE = ("affine2", "affine3", "affine4", "affine5", "affine6", "affine8")
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
# Where a block's halves lie: random bits would make infinities of them.
_HALVES = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2)} | {
    "Q6_K": (208,)
}


@dataclass(frozen=True)
class Packed:
    """Packed weights in buffers, and their values in float64."""

    buffers: tuple[MlxBuffer | None, ...]
    options: dict[str, Any]
    values: Array


def bits_of(format: str) -> int:
    return 4 if format == "mxfp4" else int(format.removeprefix("affine"))


def options_of(format: str, group: int) -> dict[str, Any]:
    if format == "mxfp4":
        return {"mode": "mxfp4"}
    return {"bits": bits_of(format), "group_size": group}


def codes_of(words: Array, bits: int) -> Array:
    """The packed codes, from the lowest bit of the first word on."""
    raw = np.ascontiguousarray(words).view(np.uint8)
    result = np.unpackbits(raw, axis=-1, bitorder="little").reshape(*words.shape[:-1], -1, bits)
    return np.asarray((result.astype(np.uint32) << np.arange(bits, dtype=np.uint32)).sum(-1))


def packed(bench: Bench, format: str, *shape: int, group: int = 64, scales: DType = DType.F32) -> Packed:
    """Random weights of a shape whose last axis is packed."""
    *axes, length = shape
    bits = bits_of(format)
    words = bench.rng.integers(0, 1 << 32, (*axes, length * bits // 32), dtype=np.uint32)
    codes = codes_of(words, bits)
    if format == "mxfp4":
        exponents = bench.integers(120, 131, *axes, length // 32, dtype=DType.U8)
        values = E2M1[codes] * np.repeat(np.exp2(exponents.astype(np.float64) - 127), 32, -1)
        return Packed((bench.put(words), bench.put(exponents), None), options_of(format, 32), values)
    factors = bench.normal(*axes, length // group, dtype=scales), bench.normal(*axes, length // group, dtype=scales)
    scale, bias = (np.repeat(each.astype(np.float64), group, -1) for each in factors)
    buffers = (bench.put(words), *map(bench.put, factors))
    return Packed(buffers, options_of(format, group), codes * scale + bias)


def blocks(bench: Bench, format: str, *shape: int) -> tuple[MlxBuffer, Array]:
    """Random GGML blocks of a shape whose last axis is in blocks, and their values as `gguf` has them, in float32."""
    *axes, length = shape
    kind = GGML_TYPES[format]
    raw = bench.rng.integers(0, 256, (*axes, length // kind.values, kind.bytes), dtype=np.uint8)
    for place in _HALVES.get(format, (0,)):
        raw[..., place : place + 2] = bench.normal(*raw.shape[:-1], 1, dtype=DType.F16).view(np.uint8)
    raw = raw.reshape(*axes, -1)
    values = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[format])
    # Blocks lie at even addresses.
    return bench.put(raw.view(np.uint16)).view(DType.U8), np.asarray(values)


def routed(x: Array, ids: Array, values: Array) -> Array:
    """Each row by its expert's weights, and zeros where there is no such expert."""
    known = np.concatenate([values.astype(np.float64), np.zeros_like(values[:1], np.float64)])
    rows = x.astype(np.float64)
    rows = np.repeat(rows[..., None, :], ids.shape[-1], -2) if x.ndim == ids.ndim else rows
    chosen = known[np.minimum(ids, len(values))]
    return np.asarray(np.einsum("...k,...nk->...n", rows, chosen))
