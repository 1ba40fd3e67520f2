"""Rows of the Walsh-Hadamard transform."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row

SIZES = [1, 2, 8, 32, 64, 512, 1024]
MORE_SIZES = [4, 16, 128, 256, 2048, 4096, 8192]


def fast_walsh(x: Array) -> Array:
    """The normalised transform of rows of 2^k values."""
    n = x.shape[-1]
    y: Array = x.astype(np.float64)
    h = 1
    while h < n:
        y = y.reshape(*x.shape[:-1], n // (2 * h), 2, h)
        y = np.concatenate([y[..., :1, :] + y[..., 1:, :], y[..., :1, :] - y[..., 1:, :]], axis=-2)
        h *= 2
    return np.asarray(y.reshape(x.shape) / np.sqrt(n))


def signs_of(bench: Bench, n: int) -> tuple[Array, Array]:
    """Random signs: as words of bits, and as factors."""
    words = bench.integers(0, 2**32, (n + 31) // 32)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")[:n]
    return words, 1.0 - 2.0 * bits


@row("hadamard_transform", dtype=FLOATS, n=SIZES, more={"n": MORE_SIZES})
def hadamard_transform(bench: Bench, dtype: DType, n: int) -> None:
    x = bench.normal(3, n, dtype=dtype)
    out = bench.out(3, n, dtype=dtype)
    bench.run(ops.hadamard_transform, bench.put(x), out=out)
    bench.close(out, fast_walsh(x))


@row("hadamard_transform", dtype=FLOATS, n=[64, 256], inverse=[False, True], more={"n": [16, 1024, 4096]})
def hadamard_signs(bench: Bench, dtype: DType, n: int, inverse: bool) -> None:
    x = bench.normal(2, 2, n, dtype=dtype)
    words, factors = signs_of(bench, n)
    out = bench.out(2, 2, n, dtype=dtype)
    bench.run(ops.hadamard_transform, bench.put(x), signs=bench.put(words), inverse=inverse, out=out)
    bench.close(out, fast_walsh(x) * factors if inverse else fast_walsh(x * factors))


@row(
    "hadamard_transform",
    dtype=FLOATS,
    m=[12, 20, 28],
    power=[1, 16],
    scale=[None],
    more={"power": [2, 128, 512], "scale": [0.25]},
)
def hadamard_parts(bench: Bench, dtype: DType, m: int, power: int, scale: float | None) -> None:
    """The matrix is read off from a run of the identity, proven orthogonal, and then every row must follow it."""
    result = np.asarray(bench.run(ops.hadamard_transform, bench.put(np.eye(m, dtype=np.float32)), scale=1.0)).T
    matrix = result.astype(np.float64)
    np.testing.assert_array_equal(matrix @ matrix.T, m * np.eye(m))
    x = bench.normal(2, m * power, dtype=dtype)
    out = bench.out(2, m * power, dtype=dtype)
    bench.run(ops.hadamard_transform, bench.put(x), scale=scale, out=out)
    factor = 1 / np.sqrt(m * power) if scale is None else scale
    parts = fast_walsh(x.reshape(2, m, power)) * np.sqrt(power)
    bench.close(out, np.einsum("ij,rjp->rip", matrix, parts).reshape(x.shape) * factor)


@row("hadamard_transform", dtype=[DType.F32], n=[8, 128])
def hadamard_own_inverse(bench: Bench, dtype: DType, n: int) -> None:
    x = bench.normal(2, n, dtype=dtype)
    once = bench.run(ops.hadamard_transform, bench.put(x))
    bench.close(bench.run(ops.hadamard_transform, once), x.astype(np.float64))
    x[0, 0] = np.inf
    bench.run(ops.hadamard_transform, bench.put(x), out=once)
    bench.close(once, fast_walsh(x))
