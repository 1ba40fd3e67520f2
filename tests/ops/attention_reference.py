"""Attention in float64, and quantised rows, as the tests expect them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
LOWEST = -3.4e38


def attention(
    q: Array,
    k: Array,
    v: Array,
    scale: float,
    *,
    mask: Array | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    lengths: Sequence[int] | None = None,
) -> Array:
    """q [batch, heads, queries, dim] over k and v [batch, kv_heads, capacity, dim]; a length above it means a ring."""
    batch, heads, queries, _ = q.shape
    capacity = k.shape[2]
    group = heads // k.shape[1]
    out = np.zeros((batch, heads, queries, v.shape[3]))
    for b in range(batch):
        length = capacity if lengths is None else int(lengths[b])
        slots = min(length, capacity)
        if not slots:
            continue
        last = length - 1
        positions = np.arange(slots) if length <= capacity else last - (last - np.arange(slots)) % capacity
        own = length - queries + np.arange(queries)[:, None]
        hidden = (causal & (positions > own)) | (own - positions >= (window or 1 << 40))
        for h in range(heads):
            s = q[b, h].astype(np.float64) @ k[b, h // group, :slots].astype(np.float64).T * scale
            if softcap:
                s = softcap * np.tanh(s / softcap)
            if mask is not None:
                part = np.broadcast_to(mask, (batch, heads, queries, capacity))[b, h, :, :slots]
                s = np.where(part, s, LOWEST) if part.dtype == bool else s + part.astype(np.float64)
            s = np.where(hidden, np.where(own < 0, LOWEST, -np.inf), s)
            out[b, h] = _weighted(s, v[b, h // group, :slots], None if sinks is None else float(sinks[h]))
    return out


def _weighted(s: Array, v: Array, sink: float | None) -> Array:
    if sink is not None:
        s = np.concatenate([s, np.full((len(s), 1), sink)], axis=1)
    with np.errstate(invalid="ignore"):
        weights = np.exp(s - s.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
    result: Array = weights[:, : len(v)] @ v.astype(np.float64)
    return result


def quantise(rows: Array, bits: int, group: int) -> tuple[Array, Array, Array]:
    """Words, scales and biases of the last axis; the scales are rounded to the type of the rows."""
    parts = rows.astype(np.float32).reshape(*rows.shape[:-1], -1, group)
    most = np.float32(2**bits - 1)
    low, high = parts.min(-1, keepdims=True), parts.max(-1, keepdims=True)
    below = np.abs(low) > np.abs(high)
    step = np.maximum((high - low) / most, np.float32(1e-7)) * np.where(below, 1, -1).astype(np.float32)
    edge = np.where(below, low, high)
    code = np.rint(edge / step)
    scale = np.where(code == 0, step, edge / np.where(code == 0, 1, code))
    bias = np.where(code == 0, np.float32(0), edge)
    codes = np.clip(np.rint((parts - bias) / scale), 0, most).astype(np.uint8).reshape(rows.shape)
    if bits == 4:
        codes = codes[..., ::2] | codes[..., 1::2] << 4
    return (
        np.ascontiguousarray(codes).view(np.uint32),
        scale[..., 0].astype(rows.dtype),
        bias[..., 0].astype(rows.dtype),
    )


def dequantise(words: Array, scales: Array, biases: Array, bits: int) -> Array:
    """Back to numbers, in float64."""
    codes = np.ascontiguousarray(words).view(np.uint8)
    if bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:-1], -1)
    parts = codes.reshape(*scales.shape, -1).astype(np.float64)
    return (parts * scales[..., None].astype(np.float64) + biases[..., None].astype(np.float64)).reshape(codes.shape)
