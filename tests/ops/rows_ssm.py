"""Rows of the parts of state-space layers."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def convolved(x: Array, weight: Array, state: Array) -> tuple[Array, Array]:
    """In float64: the result, and the state after it."""
    taps = weight.shape[1]
    whole = np.concatenate([state.transpose(0, 2, 1), x], axis=1).astype(np.float64)
    sums = sum(whole[:, k : k + x.shape[1]] * weight[:, k].astype(np.float64) for k in range(taps))
    return silu(np.asarray(sums)), whole[:, x.shape[1] :].transpose(0, 2, 1)


@row(
    "ssm_conv",
    dtype=FLOATS,
    sizes=[(1, 1, 7), (2, 5, 33), (1, 40, 3)],
    taps=[2, 4],
    more={"sizes": [(3, 2, 64), (2, 17, 65), (1, 16, 1)], "taps": [3, 9, 24]},
)
def ssm_conv(bench: Bench, dtype: DType, sizes: tuple[int, int, int], taps: int) -> None:
    sequences, tokens, channels = sizes
    x = bench.normal(sequences, tokens, channels, dtype=dtype)
    weight = bench.normal(channels, taps, dtype=dtype)
    state = bench.normal(sequences, channels, taps - 1, dtype=dtype)
    kept, out = bench.put(state, changes=True), bench.out(sequences, tokens, channels, dtype=dtype)
    bench.run(ops.ssm_conv, bench.put(x), bench.put(weight), kept, out=out)
    expected, after = convolved(x, weight, state)
    bench.close(out, expected)
    bench.exact(kept, after.astype(dtype.numpy))


@row("ssm_conv", dtype=[DType.F32], taps=[2, 4, 6], more={"taps": [3, 12]})
def ssm_conv_token_by_token(bench: Bench, dtype: DType, taps: int) -> None:
    """One token at a time, with the state from step to step, is the same as all at once."""
    x, weight = bench.normal(2, 9, 5, dtype=dtype), bench.normal(5, taps, dtype=dtype)
    state = bench.normal(2, 5, taps - 1, dtype=dtype)
    kept = bench.put(state, changes=True)
    steps = [bench.run(ops.ssm_conv, bench.put(x[:, t : t + 1]), bench.put(weight), kept) for t in range(9)]
    expected, after = convolved(x, weight, state)
    bench.close(np.concatenate([np.asarray(step) for step in steps], axis=1), expected)
    bench.exact(kept, after.astype(dtype.numpy))


@row("ssm_norm_gate", dtype=FLOATS, shape=[(3, 1), (2, 3, 33), (5, 128)], more={"shape": [(1, 64), (2, 257), (7, 2)]})
def ssm_norm_gate(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    x, z = bench.normal(*shape, dtype=dtype), bench.normal(*shape, dtype=dtype, scale=2.0)
    weight = bench.normal(shape[-1], dtype=dtype)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.ssm_norm_gate, bench.put(x), bench.put(weight), bench.put(z), eps=1e-5, out=out)
    exact = x.astype(np.float64)
    normed = exact / np.sqrt(np.mean(exact * exact, axis=-1, keepdims=True) + 1e-5)
    bench.close(out, normed * weight.astype(np.float64) * silu(z.astype(np.float64)))


@row("compute_g_beta", dtype=FLOATS, shape=[(1, 1), (5, 33)], more={"shape": [(2, 3, 16), (17, 40), (3, 257)]})
def compute_g_beta(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    a, b = bench.normal(*shape, dtype=dtype, scale=8.0), bench.normal(*shape, dtype=dtype, scale=4.0)
    bias, decay = bench.normal(shape[-1]), -np.exp(bench.normal(shape[-1]))
    g, beta = bench.out(*shape), bench.out(*shape)
    bench.run(ops.compute_g_beta, bench.put(a), bench.put(b), bench.put(bias), bench.put(decay), g=g, beta=beta)
    x = a.astype(np.float64) + bias.astype(np.float64)
    bench.close(g, -decay.astype(np.float64) * np.logaddexp(0, x))
    bench.elementwise(beta, 1 / (1 + np.exp(-b.astype(np.float64))))


@row("compute_g_beta", dtype=[DType.F32], special=[0.0, -30.0, 90.0, np.inf, -np.inf, np.nan])
def softplus_everywhere(bench: Bench, dtype: DType, special: float) -> None:
    """Without a bias to add, it is exact to the last bits."""
    a = np.concatenate([[special], np.linspace(-80, 80, 161)]).astype(dtype.numpy).reshape(1, -1)
    zero, minus = np.zeros(162, np.float32), np.full(162, -1, np.float32)
    g, beta = bench.run(ops.compute_g_beta, bench.put(a), bench.put(a), bench.put(zero), bench.put(minus))
    exact = a.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        bench.elementwise(g, np.logaddexp(0, exact))
        bench.elementwise(beta, 1 / (1 + np.exp(-exact)))
