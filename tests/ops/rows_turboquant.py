"""Rows of TurboQuant: codes against float64, caches, and attention on codes."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, MlxBuffer, ops

from .bench import Array, Bench
from .lloyd_max import levels, table
from .rows_hadamard import fast_walsh, signs_of
from .table import FLOATS, row

BITS = [2, 3, 4, 5, 6, 8]


def scaled(x: Array, factors: Array | float) -> tuple[Array, Array]:
    """Rotated rows in blocks of up to 256, brought to mean square one, and their norms."""
    n = x.shape[-1]
    y = fast_walsh(x.astype(np.float64) * factors).reshape(*x.shape[:-1], -1, min(n, 256))
    norms = np.linalg.norm(y, axis=-1)
    safe = np.where(norms > 1e-10, norms, np.inf)[..., None]
    return y * np.sqrt(y.shape[-1]) / safe, norms


def middles(bits: int) -> Array:
    exact = table(bits).astype(np.float32)
    return (np.float32(0.5) * (exact[:-1] + exact[1:])).astype(np.float64)


def encoded(x: Array, bits: int, factors: Array | float = 1.0) -> tuple[Array, Array]:
    """Codes, one in each byte, and norms; a value between two levels gets the lower code."""
    y, norms = scaled(x, factors)
    return np.searchsorted(middles(bits), y, side="left").reshape(x.shape).astype(np.uint8), norms


def packed(codes: Array, bits: int) -> Array:
    """From the lowest bit of each byte on."""
    stream = np.unpackbits(codes[..., None], axis=-1, bitorder="little")[..., :bits]
    return np.packbits(stream.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")


def decoded(codes: Array, norms: Array, bits: int, factors: Array | float = 1.0) -> Array:
    n = codes.shape[-1]
    y = table(bits)[codes].reshape(*norms.shape, -1) * norms[..., None] / np.sqrt(min(n, 256))
    return fast_walsh(y.reshape(codes.shape)) * factors


def clear_rows(bench: Bench, shape: tuple[int, ...], dtype: DType, bits: int, factors: Array | float = 1.0) -> Array:
    """Rows whose values keep away from the middles between levels, where the last bit of a sum would decide."""
    rows = int(np.prod(shape[:-1]))
    result: list[Array] = []
    while len(result) < rows:
        x = bench.normal(1, shape[-1], dtype=dtype, scale=3.0)
        y, _ = scaled(x, factors)
        nearest = np.abs(y[..., None] - middles(bits)).min(axis=-1)
        if (nearest > 3e-6 * np.maximum(1, np.abs(y))).all():
            result.append(x)
    return np.concatenate(result).reshape(shape)


def signs_for(bench: Bench, n: int, signed: bool) -> tuple[MlxBuffer | None, Array | float]:
    words, factors = signs_of(bench, n)
    return (bench.put(words), factors) if signed else (None, 1.0)


@row("tq_quantize", dtype=FLOATS, n=[64, 512], bits=[4, 8], more={"n": [32, 128, 256, 1024], "bits": [2, 3, 5, 6]})
def tq_quantize(bench: Bench, dtype: DType, n: int, bits: int) -> None:
    signs, factors = signs_for(bench, n, bits % 2 == 0)
    x = clear_rows(bench, (2, n), dtype, bits, factors)
    x[0] = 0
    codes, norms = bench.run(ops.tq_quantize, bench.put(x), bits=bits, signs=signs)
    expected, lengths = encoded(x, bits, factors)
    bench.exact(codes, packed(expected, bits))
    bench.close(norms, lengths)


@row("tq_quantize", dtype=[DType.F32], bits=BITS, more={"bits": [1, 7]})
def tq_ties(bench: Bench, dtype: DType, bits: int) -> None:
    """All but one of the rotated values are 0, halfway between the middle levels: they get the lower code."""
    x = np.ones((1, 64), dtype.numpy)
    codes, norms = bench.run(ops.tq_quantize, bench.put(x), bits=bits)
    low = (1 << (bits - 1)) - 1
    bench.exact(codes, packed(np.array([[2 * low + 1] + [low] * 63], np.uint8), bits))
    bench.close(norms, np.array([[8.0]]))


@row("tq_dequantize", dtype=FLOATS, n=[64, 512], bits=[4, 8], more={"n": [32, 256, 4096], "bits": [2, 3, 5, 6]})
def tq_dequantize(bench: Bench, dtype: DType, n: int, bits: int) -> None:
    signs, factors = signs_for(bench, n, bits % 2 == 0)
    codes = bench.integers(0, 1 << bits, 3, n, dtype=DType.U8)
    norms = np.exp(bench.normal(3, max(1, n // 256)))
    out = bench.out(3, n, dtype=dtype)
    inputs = bench.put(packed(codes, bits)), bench.put(norms)
    bench.run(ops.tq_dequantize, *inputs, bits=bits, signs=signs, dtype=dtype, out=out)
    bench.close(out, decoded(codes, norms.astype(np.float64), bits, factors))


@row("tq_dequantize", dtype=[DType.F32], bits=[*BITS, 1, 7])
def tq_levels(bench: Bench, dtype: DType, bits: int) -> None:
    """Every level, as it is in the kernels, is the one that Lloyd-Max gives."""
    codes = np.resize(np.arange(1 << bits), (max(1, (1 << bits) // 256), 256)).astype(np.uint8)
    norms = np.full((len(codes), 1), 16, np.float32)
    result = bench.run(ops.tq_dequantize, bench.put(packed(codes, bits)), bench.put(norms), bits=bits, rotated=True)
    bench.exact(result, levels(bits).astype(dtype.numpy)[codes])


@row(
    "tq_quantize_kv",
    dtype=FLOATS,
    bits=[4, 8],
    place=["linear", "ring", "buffer"],
    tokens_first=[False],
    more={"bits": [5, 6], "place": ["flood", "beyond"], "tokens_first": [True]},
)
def tq_quantize_kv(bench: Bench, dtype: DType, bits: int, place: str, tokens_first: bool) -> None:
    """A ring wraps, also when flooded; positions from a buffer that lie beyond the end are dropped."""
    batch, heads, capacity, n = 2, 3, 6, 64
    tokens = 9 if place == "flood" else 3
    signs, factors = signs_for(bench, n, True)
    x = clear_rows(bench, (batch, tokens, heads, n), dtype, bits, factors)
    starts = {"linear": [3, 3], "ring": [10, 10], "flood": [4, 4], "buffer": [0, 2], "beyond": [5, 7]}[place]
    ring = place in ("ring", "flood")
    codes = bench.integers(0, 256, batch, heads, capacity, n // 8 * bits, dtype=DType.U8)
    norms = bench.normal(batch, heads, capacity, 1)
    cache = bench.put(codes, changes=True), bench.put(norms, changes=True)
    first = bench.put(np.array(starts, np.uint32)) if place in ("buffer", "beyond", "flood") else starts[0]
    given = bench.put(x if tokens_first else x.transpose(0, 2, 1, 3))
    options = {"bits": bits, "ring": ring, "tokens_first": tokens_first, "signs": signs}
    bench.run(ops.tq_quantize_kv, given, cache, position=first, **options)
    new, lengths = encoded(x, bits, factors)
    for b in range(batch):
        for t in range(tokens):
            slot = starts[b] + t
            if ring or slot < capacity:
                codes[b, :, slot % capacity] = packed(new, bits)[b, t]
                norms[b, :, slot % capacity] = lengths[b, t]
    bench.exact(cache[0], codes)
    bench.close(cache[1], norms.astype(np.float64))


def attention(q: Array, k: Array, v: Array, lengths: list[int], scale: float, window: int, softcap: float) -> Array:
    """In float64: q [batch, heads, 1, n] to the last of `lengths` positions, which lie at their remainder."""
    out = np.zeros(q.shape)
    ratio, capacity = q.shape[1] // k.shape[1], k.shape[2]
    for b, length in enumerate(lengths):
        visible = min(length, capacity, window or length)
        slots = np.arange(length - visible, length) % capacity
        for h in range(q.shape[1] if visible else 0):
            scores = k[b, h // ratio, slots] @ q[b, h, 0].astype(np.float64) * scale
            scores = softcap * np.tanh(scores / softcap) if softcap else scores
            weights = np.exp(scores - scores.max())
            out[b, h, 0] = weights / weights.sum() @ v[b, h // ratio, slots]
    return out


@row(
    "tq_sdpa_decode",
    dtype=FLOATS,
    bits=[4, 8],
    option=["plain", "window", "softcap"],
    more={"option": ["ring", "all"]},
)
def tq_sdpa_decode(bench: Bench, dtype: DType, bits: int, option: str) -> None:
    check_attention(bench, dtype, 64, bits, option)


@row("tq_sdpa_decode", dtype=[DType.F32], n=[128], bits=[5], more={"n": [32, 256, 512], "bits": [4, 6, 8]})
def tq_sdpa_sizes(bench: Bench, dtype: DType, n: int, bits: int) -> None:
    check_attention(bench, dtype, n, bits, "all")


def check_attention(bench: Bench, dtype: DType, n: int, bits: int, option: str) -> None:
    batch, heads, kv_heads, capacity = 2, 4, 2, 70
    lengths = [100, 71] if option in ("ring", "all") else [69, 0]
    window = 5 if option in ("window", "all") else 0
    softcap = 2.0 if option in ("softcap", "all") else 0.0
    signs, factors = signs_for(bench, n, option != "plain")
    q = bench.normal(batch, heads, 1, n, dtype=dtype, scale=2.0)
    codes = [bench.integers(0, 1 << bits, batch, kv_heads, capacity, n, dtype=DType.U8) for _ in range(2)]
    norms = [np.exp(bench.normal(batch, kv_heads, capacity, max(1, n // 256))) * 4 for _ in range(2)]
    out = bench.out(*q.shape, dtype=dtype)
    caches = [(bench.put(packed(c, bits)), bench.put(m)) for c, m in zip(codes, norms, strict=True)]
    options = {"bits": bits, "window": window or None, "softcap": softcap or None, "signs": signs}
    length = bench.put(np.array(lengths, np.uint32))
    bench.run(ops.tq_sdpa_decode, bench.put(q), *caches, length=length, out=out, **options)
    k, v = (decoded(c, m.astype(np.float64), bits, factors) for c, m in zip(codes, norms, strict=True))
    bench.close(out, attention(q, k, v, lengths, 1 / np.sqrt(n), window, softcap))


@row("tq_sdpa_decode", dtype=[DType.F32], length=[1, 300], more={"length": [2, 63, 64, 65, 255, 2000]})
def tq_sdpa_many_keys(bench: Bench, dtype: DType, length: int) -> None:
    """Keys and values that went through the cache; one length for all sequences, and a scale of one's own."""
    n, bits, capacity = 64, 4, max(length, 8)
    words = bench.put(signs_of(bench, n)[0])
    q, new = bench.normal(1, 2, 1, n), [bench.normal(1, 1, length, n, scale=scale) for scale in (2.0, 1.0)]
    caches = []
    for x in new:
        codes = bench.put(np.zeros((1, 1, capacity, n // 2), np.uint8), changes=True)
        norms = bench.put(np.zeros((1, 1, capacity, 1), np.float32), changes=True)
        caches.append(bench.run(ops.tq_quantize_kv, bench.put(x), (codes, norms), position=0, bits=bits, signs=words))
    result = bench.run(ops.tq_sdpa_decode, bench.put(q), *caches, length=length, bits=bits, scale=0.3, signs=words)
    k, v = (np.asarray(bench.run(ops.tq_dequantize, *each, bits=bits, signs=words), np.float64) for each in caches)
    bench.close(result, attention(q, k, v, [length], 0.3, 0, 0.0))
