"""The Walsh-Hadamard transform, routing and the causal convolution beside MLX."""

from __future__ import annotations

from typing import Any

from mlx_native_py import DType, fn

from .mlx_table import MlxRow, normal


def route(mx: Any, logits: Any, top_k: int) -> list[Any]:
    """As Qwen's routers do it in MLX."""
    ids = mx.argsort(-logits, axis=-1)[:, :top_k]
    weights = mx.take_along_axis(mx.softmax(logits, axis=-1), ids, axis=-1)
    return [ids, weights / weights.sum(axis=-1, keepdims=True)]


def convolve(mx: Any, x: Any, weight: Any) -> list[Any]:
    """With zeros before the first token."""
    taps = weight.shape[1]
    padded = mx.pad(x, [(0, 0), (taps - 1, 0), (0, 0)])
    y = mx.conv1d(padded, weight[..., None], groups=x.shape[-1])
    return [y * mx.sigmoid(y), padded[:, x.shape[1] :].transpose(0, 2, 1)]


ROWS = [
    *(MlxRow("hadamard_transform", (normal(3, n),)) for n in (1, 2, 64, 1024, 4096, 12, 24, 40, 28 * 64, 12 * 512)),
    MlxRow("hadamard_transform", (normal(2, 80), 0.5), note="scale"),
    MlxRow("hadamard_transform", (normal(2, 256, dtype=DType.F16),), tolerance=2e-3, note="f16"),
    MlxRow("moe_softmax_topk", (normal(5, 60), 6), mlx=route),
    MlxRow("ssm_conv", (normal(2, 9, 33), normal(33, 4, seed=1)), ours=fn.ssm_conv, mlx=convolve),
]
