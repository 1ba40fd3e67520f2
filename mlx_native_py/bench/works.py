"""The workloads of `mlx-native bench soft`: arguments, launch sizes, and equivalents in numpy and MLX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["KernelWork", "add", "matmul", "q4_matvec", "rms_norm", "softmax", "tiled_matmul"]

_F32 = NDArray[np.float32]
Size = tuple[int, int, int]


@dataclass(frozen=True)
class KernelWork:
    """One kernel with its arguments (arrays become buffers) and launch size."""

    title: str
    kernel: str
    arguments: tuple[Any, ...]
    output: int  # which argument takes the result
    threads: Size
    group: Size
    numpy: Callable[[], _F32]
    mlx: Callable[[Any], Callable[[], Any]]  # given MLX, what it evaluates
    flops: int = 0  # 0 where memory is what counts


def _random(*shape: int) -> _F32:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def add(n: int = 1 << 24) -> KernelWork:
    a, b = _random(n), _random(n)
    out = np.empty_like(a)

    def mlx(mx: Any) -> Callable[[], Any]:
        left, right = mx.array(a), mx.array(b)
        return lambda: mx.add(left, right)

    def numpy() -> _F32:
        return np.add(a, b, out=out)

    return KernelWork(f"add f32, {n >> 20} M", "add", (a, b, out), 2, (n, 1, 1), (256, 1, 1), numpy, mlx)


def rms_norm(rows: int = 4096, width: int = 2048) -> KernelWork:
    x, w = _random(rows, width), _random(width)

    def mlx(mx: Any) -> Callable[[], Any]:
        mx_x, mx_w = mx.array(x), mx.array(w)
        return lambda: mx.fast.rms_norm(mx_x, mx_w, 1e-5)

    def numpy() -> _F32:
        return np.asarray(x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + np.float32(1e-5)) * w)

    arguments = (x, w, np.empty_like(x), np.uint32(width))
    return KernelWork(
        f"rms_norm {rows} x {width}", "rms_norm", arguments, 2, (rows * 256, 1, 1), (256, 1, 1), numpy, mlx
    )


def softmax(rows: int = 4096, width: int = 2048) -> KernelWork:
    x = _random(rows, width)

    def mlx(mx: Any) -> Callable[[], Any]:
        mx_x = mx.array(x)
        return lambda: mx.softmax(mx_x, axis=-1)

    def numpy() -> _F32:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    arguments = (x, np.empty_like(x), np.uint32(width))
    return KernelWork(f"softmax {rows} x {width}", "softmax", arguments, 1, (rows * 256, 1, 1), (256, 1, 1), numpy, mlx)


def _square(title: str, kernel: str, n: int, threads: Size, group: Size) -> KernelWork:
    a, b = _random(n, n), _random(n, n)

    def mlx(mx: Any) -> Callable[[], Any]:
        mx_a, mx_b = mx.array(a), mx.array(b)
        return lambda: mx.matmul(mx_a, mx_b)

    arguments = (a, b, np.empty_like(a), np.uint32(n))
    return KernelWork(title, kernel, arguments, 2, threads, group, lambda: a @ b, mlx, flops=2 * n**3)


def matmul(n: int = 512) -> KernelWork:
    return _square(f"simdgroup matmul {n}^3", "matmul", n, (n // 64 * 128, n // 64, 1), (128, 1, 1))


def tiled_matmul(n: int = 512) -> KernelWork:
    return _square(f"tiled matmul {n}^3", "tiled_matmul", n, (n, n, 1), (32, 32, 1))


def q4_matvec(n: int = 4096) -> KernelWork:
    words = np.random.default_rng(0).integers(0, 1 << 32, (n, n // 8), dtype=np.uint32)
    scales, biases, x = _random(n, n // 64), _random(n, n // 64), _random(n)
    quants = (words[:, :, None] >> (4 * np.arange(8, dtype=np.uint32)) & 15).reshape(n, n).astype(np.float32)
    dense = (quants * scales.repeat(64, axis=1) + biases.repeat(64, axis=1)).astype(np.float32)

    def mlx(mx: Any) -> Callable[[], Any]:
        packed = [mx.array(v) for v in (words, scales, biases)]
        vector = mx.array(x[None])
        return lambda: mx.quantized_matmul(vector, *packed, group_size=64, bits=4)

    arguments = (words, scales, biases, x, np.empty(n, np.float32), np.uint32(n))
    grid: Size = (n // 4 * 128, 1, 1)
    return KernelWork(
        f"q4 matvec {n}^2", "q4_matvec", arguments, 4, grid, (128, 1, 1), lambda: dense @ x, mlx, flops=2 * n * n
    )
