"""Rows of sampling, against the same draws in Python's whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlx_native_py import DType, ops

from .bench import Array, Bench
from .table import FLOATS, row


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Ten rounds of Philox-4x32."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = q >> 32 ^ b ^ k0, q & 0xFFFFFFFF, p >> 32 ^ d ^ k1, p & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [a, b, c, d]


def penalised(logits: Array, tokens: Array, penalty: float) -> Array:
    """A row of logits after the penalty on the tokens of its history."""
    out = logits.astype(np.float32)
    seen = np.unique(tokens[tokens < out.size])
    out[seen] = np.where(out[seen] > 0, out[seen] / np.float32(penalty), out[seen] * np.float32(penalty))
    return out


def weights_of(logits: Array, temperature: float) -> list[int]:
    """Whole numbers in proportion to the probabilities, 2^31 for the largest."""
    known = np.where(np.isnan(logits), np.float32(-np.inf), logits)
    slope = np.float32(1) / np.float32(temperature)
    with np.errstate(invalid="ignore"):
        powers = np.where(known == known.max(), 1.0, np.exp(((known - known.max()) * slope).astype(np.float64)))
    return [int(weight) for weight in np.rint(powers.astype(np.float32) * 2.0**31)]


def kept(logits: Array, weights: list[int], top_k: int, top_p: float, min_p: float) -> list[int]:
    """The tokens that may be drawn, the most probable first."""
    known = np.where(np.isnan(logits), -np.inf, logits)
    tokens = [int(token) for token in np.argsort(-known, kind="stable") if weights[token]]
    tokens = tokens[: top_k or None]
    if top_p < 1:
        goal = -(-sum(weights[token] for token in tokens) * round(top_p * 2**32) >> 32)
        sums = np.cumsum([weights[token] for token in tokens])
        tokens = tokens[: int(np.searchsorted(sums, goal)) + 1]
    return [token for token in tokens if weights[token] >= round(min_p * 2**31)]


def drawn(
    logits: Array, row_number: int, *, temperature: float, top_k: int, top_p: float, min_p: float, seed: int, step: int
) -> int:
    """The token of one row."""
    if temperature == 0:
        return int(np.argmax(np.where(np.isnan(logits), -np.inf, logits)))
    weights = weights_of(logits, temperature)
    tokens = sorted(kept(logits, weights, top_k, top_p, min_p), key=lambda token: (token % 1024, token))
    random = philox((step, row_number, 0, 0), (seed & 0xFFFFFFFF, seed >> 32))
    goal = (random[0] << 32 | random[1]) * sum(weights[token] for token in tokens) >> 64
    for token in tokens:
        goal -= weights[token]
        if goal < 0:
            return token
    raise AssertionError("the goal is less than the sum")


def check(bench: Bench, dtype: DType, logits: Array, history: Array | None = None, **options: Any) -> None:
    """Draws a token per row, and compares tokens and log-probabilities."""
    how = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 0, "step": 0} | options
    penalty, length = how.pop("repetition_penalty", 1.0), how.pop("history_length", None)
    out, logarithm = bench.out(len(logits), dtype=DType.U32), bench.out(len(logits))
    given = dict(how)
    if bench.captures:
        given["step"] = bench.put(np.array([how["step"]], np.uint32))
    if history is not None:
        lengths = bench.put(np.full(len(logits), length, np.uint32)) if bench.captures else length
        given |= {"repetition_penalty": penalty, "history": bench.put(history), "history_length": lengths}
    bench.run(ops.softmax_sample, bench.put(logits), **given, out=out, log_probability=logarithm)
    seen = [penalised(each, history[i, :length], penalty) if history is not None else each.astype(np.float32)
            for i, each in enumerate(logits)]  # fmt: skip
    tokens = np.array([drawn(each, i, **how) for i, each in enumerate(seen)], np.uint32)
    bench.exact(out, tokens)
    scaled = np.array([each.astype(np.float64) / (how["temperature"] or 1.0) for each in seen])
    scaled[np.isnan(scaled)] = -np.inf
    expected = scaled[np.arange(len(tokens)), tokens] - np.logaddexp.reduce(scaled, -1)
    np.testing.assert_allclose(np.asarray(logarithm), expected, rtol=2e-5, atol=2e-5)


@row(
    "softmax_sample",
    dtype=FLOATS,
    shape=[(6, 300), (2, 2500)],
    filters=[(0, 1.0, 0.0), (20, 1.0, 0.0), (0, 0.8, 0.0), (50, 0.9, 0.05)],
    temperature=[0.7],
    more={
        "shape": [(1, 1), (3, 33), (2, 1024)],
        "filters": [(0, 1.0, 0.1), (1, 1.0, 0.0), (7, 0.5, 0.0), (0, 1e-6, 0.0)],
        "temperature": [1.5],
    },
)
def softmax_sample(
    bench: Bench,
    dtype: DType,
    shape: tuple[int, int],
    filters: tuple[int, float, float],
    temperature: float,
) -> None:
    logits = bench.normal(*shape, dtype=dtype, scale=3.0)
    top_k, top_p, min_p = filters
    seed, step = int(bench.rng.integers(1 << 63)), int(bench.rng.integers(1 << 32))
    options: dict[str, Any] = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "temperature": temperature}
    check(bench, dtype, logits, **options, seed=seed, step=step)


@row("softmax_sample", dtype=FLOATS[:1], length=[], more={"length": [151_936]})
def softmax_sample_of_a_vocabulary(bench: Bench, dtype: DType, length: int) -> None:
    logits = bench.normal(1, length, dtype=dtype, scale=3.0)
    check(bench, dtype, logits, top_k=3000, top_p=0.97, min_p=0.01, seed=1 << 40)


@row("softmax_sample", dtype=FLOATS, temperature=[0.0, 0.9], more={"temperature": [0.3, 2.0]})
def softmax_sample_penalty(bench: Bench, dtype: DType, temperature: float) -> None:
    """Tokens twice in the history count once, and those beyond its length or the vocabulary not at all."""
    logits = bench.normal(4, 90, dtype=dtype, scale=3.0)
    history = bench.integers(0, 100, 4, 64)
    history[:, 5] = history[:, 3]
    options: dict[str, Any] = {"repetition_penalty": 1.7, "history_length": 40, "temperature": temperature}
    check(bench, dtype, logits, history, **options, seed=5, step=9, top_k=30)


ODD_ROWS: dict[str, Callable[[Array], Array]] = {
    "ties": lambda x: np.round(x),
    "all equal": lambda x: np.zeros_like(x),
    "all minus infinity": lambda x: np.full_like(x, -np.inf),
    "minus infinities": lambda x: np.where(np.arange(x.shape[1]) % 3, x, -np.inf),
    "NaN": lambda x: np.where(np.arange(x.shape[1]) % 3, x, np.nan),
    "peak": lambda x: np.where(np.arange(x.shape[1]) == 17, 100, x),
}


@row(
    "softmax_sample",
    dtype=FLOATS[:1],
    kind=list(ODD_ROWS),
    top_k=[10],
    temperature=[1.0, 0.0],
    more={"dtype": FLOATS[1:], "top_k": [0, 1]},
)
def softmax_sample_special(bench: Bench, dtype: DType, kind: str, top_k: int, temperature: float) -> None:
    logits = ODD_ROWS[kind](bench.normal(3, 200, scale=2.0)).astype(dtype.numpy)
    if kind == "all minus infinity":
        return uniform(bench, logits, temperature)
    return check(bench, dtype, logits, top_k=top_k, top_p=0.95 if top_k else 1.0, temperature=temperature, seed=3)


def uniform(bench: Bench, logits: Array, temperature: float) -> None:
    """Where nothing is likelier than anything else, every token is as good, and without chance the first."""
    out = bench.out(len(logits), dtype=DType.U32)
    bench.run(ops.softmax_sample, bench.put(logits), temperature=temperature, out=out)
    assert np.asarray(out).max() < logits.shape[1] and (temperature or not np.asarray(out).any())
