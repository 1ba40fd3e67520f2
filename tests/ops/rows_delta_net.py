"""Rows of the gated delta rule, token by token and by chunks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row


class Shape(NamedTuple):
    sequences: int
    tokens: int
    key_heads: int
    heads: int
    key_dim: int
    value_dim: int


class Given(NamedTuple):
    q: Array
    k: Array
    v: Array
    g: Array
    beta: Array
    state: Array


def drawn(bench: Bench, shape: Shape, dtype: DType) -> Given:
    """Keys of about length one, and decays that let a state last for some tens of tokens."""
    s, t, hk, hv, dk, dv = shape
    k = bench.rng.normal(size=(s, t, hk, dk))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    g = np.exp(bench.rng.uniform(-5, 0, (s, t, hv))).astype(np.float32)
    beta = bench.rng.uniform(0.05, 0.95, (s, t, hv)).astype(np.float32)
    q, v = bench.normal(s, t, hk, dk, dtype=dtype), bench.normal(s, t, hv, dv, dtype=dtype)
    return Given(q, k.astype(np.float32).astype(dtype.numpy), v, g, beta, bench.normal(s, hv, dv, dk))


def recurrence(
    given: Given, *, scale: float = 1.0, norm_eps: float | None = None, key_heads: str = "grouped"
) -> tuple[Array, Array]:
    """Results and last state in float64."""
    q, k, v, g, beta, state = (np.asarray(each, np.float64) for each in given)
    if norm_eps is not None:
        q, k = (x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + norm_eps) for x in (q, k))
    heads = v.shape[2]
    head = np.arange(heads)
    head = head % q.shape[2] if key_heads == "tiled" else head // (heads // q.shape[2])
    out = np.empty_like(v)
    for t in range(v.shape[1]):
        kt, qt = k[:, t, head], q[:, t, head]
        state = state * np.exp(-g[:, t])[..., None, None]
        delta = beta[:, t][..., None] * (v[:, t] - np.einsum("shvk,shk->shv", state, kt))
        state = state + np.einsum("shv,shk->shvk", delta, kt)
        out[:, t] = np.einsum("shvk,shk->shv", state, qt) * scale
    return out, state


def check(bench: Bench, op: Any, dtype: DType, shape: Shape, **options: Any) -> None:
    given = drawn(bench, shape, dtype)
    state, out = bench.put(given.state, changes=True), bench.out(*given.v.shape, dtype=dtype)
    bench.run(op, *(bench.put(each) for each in given[:5]), state, out=out, **options)
    expected, after = recurrence(given, **options)
    bench.close(out, expected)
    bench.close(state, after)


SMALL = Shape(1, 1, 1, 1, 33, 31)
DECODE = Shape(3, 1, 2, 4, 64, 5)
MIXED = Shape(2, 7, 2, 6, 40, 9)


@row(
    "gated_delta_net",
    dtype=FLOATS,
    shape=[SMALL, DECODE, MIXED],
    more={"shape": [Shape(1, 3, 1, 2, 128, 8), Shape(1, 33, 3, 3, 1, 1), Shape(2, 4, 1, 8, 96, 33)]},
)
def gated_delta_net(bench: Bench, dtype: DType, shape: Shape) -> None:
    check(bench, ops.gated_delta_net, dtype, shape)


@row("gated_delta_net", dtype=[DType.F32], key_dim=[128], more={"key_dim": [1, 31, 32, 65, 160, 192, 255, 256]})
def gated_delta_net_keys(bench: Bench, dtype: DType, key_dim: int) -> None:
    check(bench, ops.gated_delta_net, dtype, Shape(1, 3, 1, 2, key_dim, 6))


@row(
    "gated_delta_net",
    dtype=[DType.F32],
    shape=[MIXED],
    scale=[0.125],
    norm_eps=[1e-6],
    key_heads=["grouped", "tiled"],
    more={"shape": [Shape(1, 5, 3, 9, 72, 6)], "scale": [1.0], "norm_eps": [None, 0.5]},
)
def gated_delta_net_options(
    bench: Bench, dtype: DType, shape: Shape, scale: float, norm_eps: float | None, key_heads: str
) -> None:
    check(bench, ops.gated_delta_net, dtype, shape, scale=scale, norm_eps=norm_eps, key_heads=key_heads)


@row(
    "gated_delta_net_chunked",
    dtype=FLOATS,
    shape=[Shape(1, 64, 1, 1, 32, 16), Shape(1, 70, 1, 2, 20, 9), SMALL],
    more={"shape": [Shape(2, 129, 1, 2, 16, 8), Shape(1, 63, 2, 2, 128, 24), Shape(1, 65, 1, 1, 256, 8), MIXED]},
)
def gated_delta_net_chunked(bench: Bench, dtype: DType, shape: Shape) -> None:
    check(bench, ops.gated_delta_net_chunked, dtype, shape)


@row(
    "gated_delta_net_chunked",
    dtype=[DType.F32],
    shape=[Shape(1, 66, 2, 4, 12, 8)],
    scale=[0.25],
    norm_eps=[1e-6],
    key_heads=["grouped", "tiled"],
    more={"shape": [MIXED], "scale": [1.0], "norm_eps": [0.5]},
)
def gated_delta_net_chunked_options(
    bench: Bench, dtype: DType, shape: Shape, scale: float, norm_eps: float | None, key_heads: str
) -> None:
    check(bench, ops.gated_delta_net_chunked, dtype, shape, scale=scale, norm_eps=norm_eps, key_heads=key_heads)


@row("gated_delta_net_chunked", dtype=[DType.F32], tokens=[67], more={"tokens": [1, 64, 100, 130]})
def chunked_as_recurrent(bench: Bench, dtype: DType, tokens: int) -> None:
    """Both forms leave the same results, and states that go on alike."""
    given = drawn(bench, Shape(1, tokens, 1, 2, 24, 8), dtype)
    inputs = [bench.put(each) for each in given[:5]]
    states = [bench.put(given.state, changes=True) for _ in range(2)]
    one = bench.run(ops.gated_delta_net, *inputs, states[0])
    other = bench.run(ops.gated_delta_net_chunked, *inputs, states[1])
    bench.close(other, np.asarray(one, np.float64))
    bench.close(states[1], np.asarray(states[0], np.float64))


@row("chunk_cumsum", dtype=[DType.F32], shape=[(1, 1, 1), (2, 130, 3)], chunk=[64, 7], more={"chunk": [1, 32, 200]})
def chunk_cumsum(bench: Bench, dtype: DType, shape: tuple[int, int, int], chunk: int) -> None:
    x = bench.normal(*shape, dtype=dtype)
    out = bench.out(*shape)
    bench.run(ops.chunk_cumsum, bench.put(x), chunk=chunk, out=out)
    starts = range(0, shape[1], chunk)
    bench.close(
        out, np.concatenate([np.cumsum(x[:, t : t + chunk].astype(np.float64), axis=1) for t in starts], axis=1)
    )


@row(
    "tri_solve_lower_unit",
    dtype=[DType.F32],
    shape=[(1, 1, 1), (2, 5, 33), (1, 64, 3)],
    more={"shape": [(2, 3, 7, 2), (1, 100, 40), (3, 33, 1)]},
)
def tri_solve_lower_unit(bench: Bench, dtype: DType, shape: tuple[int, ...]) -> None:
    """Whatever stands on and above the diagonal does not count, be it NaN."""
    *batch, n, columns = shape
    lower, b = bench.normal(*batch, n, n, scale=0.3), bench.normal(*shape)
    matrix = np.tril(lower.astype(np.float64), -1) + np.eye(n)
    lower[..., 0, n - 1] = np.nan
    out = bench.out(*shape)
    bench.run(ops.tri_solve_lower_unit, bench.put(lower), bench.put(b), out=out)
    bench.close(out, np.linalg.solve(matrix, b.astype(np.float64)))
