"""TurboQuant: rows rotated by a Hadamard transform and quantised to Lloyd-Max codes with norms."""

from __future__ import annotations

import math
import struct

from ...dtypes import DType
from ...encoder import CapturedOpKind, Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ...memory.shapes import whole
from ..hadamard_rows import check_signs, is_power, team_for, transform_rows
from ..op import FLOATS, Count, Output, op
from ..support import SIMD, check_dtype, check_shape, kernel, result, shown

__all__ = ["tq_dequantize", "tq_quantize", "tq_quantize_kv", "tq_sdpa_decode"]

Codes = tuple[MlxBuffer, MlxBuffer]
"""Codes and norms."""

_LONGEST = 4096
_BLOCK = 256
"""Values that share a norm."""
_MOST_SHARES = 32
_SHARE_KEYS = 64
"""Keys per threadgroup."""


@op("y = hadamard(signs x); norm = |y|; code of the level nearest to y sqrt(n) / norm, ties to the lower code")
def tq_quantize(enc: Encoder, x: MlxBuffer, bits: int = 4, *, signs: MlxBuffer | None = None) -> Codes:
    """Codes, u8 [..., n * bits / 8], and norms, f32 [..., n / 256 or 1], of rows of n values, n a power of two.

    Codes of 1 to 8 bits are packed from the lowest bit of the first byte. `signs` has one bit per value, in u32 words
    from the lowest bit. In rows of more than 256 values, each 256 have their own norm and count as n.
    """
    n = _row_length("x", x, bits)
    rows = x.size // n
    codes, norms = (enc.empty((*x.shape[:-1], width), dtype) for width, dtype in _widths(n, bits))
    _quantize(enc, x, (1, 1, rows, n), (codes, norms), bytes(4), (bits, rows, False), signs, False)
    return codes, norms


@op("tq_quantize of x[b, h, t] to cache[b, h, position[b] + t]", fn=())
def tq_quantize_kv(
    enc: Encoder,
    x: MlxBuffer,
    cache: Codes,
    *,
    position: Count,
    bits: int,
    ring: bool = False,
    tokens_first: bool = False,
    signs: MlxBuffer | None = None,
) -> Codes:
    """Writes new keys or values x [batch, heads, tokens, n] into a cache of codes and norms.

    The cache is [batch, heads, capacity, ...]. With `tokens_first` x is [batch, tokens, heads, n]. `position` is that
    of the first token, a number or a u32 buffer with one per sequence. In a ring, position p is stored at
    p % capacity, and the last tokens win. Tokens beyond the end of a linear cache raise if the position is a number,
    and are dropped if it is in a buffer.
    """
    n = _row_length("x", x, bits)
    codes, norms = _pair("cache", cache)
    if x.ndim != 4 or codes.ndim != 4:
        raise InvalidArgument(
            f"x is {shown(x)} and the cache's codes {shown(codes)}, expected [batch, heads, tokens, n] "
            "and [batch, heads, capacity, bytes]"
        )
    batch, heads, tokens = (x.shape[0], x.shape[2], x.shape[1]) if tokens_first else x.shape[:3]
    capacity = codes.shape[2]
    _check_cache("cache", codes, norms, (batch, heads, capacity), n, bits)
    positions = _each("position", position, batch)
    if isinstance(position, int) and not ring and position + tokens > capacity:
        raise InvalidArgument(f"{tokens} tokens from {position} on, expected to end by {capacity}")
    axes = (batch, heads, tokens, n)
    _quantize(enc, x, axes, (codes, norms), positions, (bits, capacity, ring), signs, tokens_first)
    return codes, norms


@op("x = signs hadamard(level[codes] * norm / sqrt(n))")
def tq_dequantize(
    enc: Encoder,
    codes: MlxBuffer,
    norms: MlxBuffer,
    bits: int = 4,
    *,
    signs: MlxBuffer | None = None,
    rotated: bool = False,
    dtype: DType = DType.F32,
    out: Output = None,
) -> MlxBuffer:
    """Reconstructs rows from codes and norms; `rotated` skips the inverse transform and signs."""
    check_dtype("codes", codes, (DType.U8,))
    n = codes.shape[-1] * 8 // _checked_bits(bits)
    _check_length("codes", codes, n)
    _check_cache("", codes, norms, codes.shape[:-1], n, bits)
    check_signs(signs, n)
    if dtype not in FLOATS:
        raise InvalidArgument(f"dtype is {dtype}, expected f32, f16 or bf16")
    out = result(enc, out, (*codes.shape[:-1], n), dtype)
    pipeline = kernel(enc, "turboquant", f"tq_dequantize_{dtype}")
    args = (codes, norms, signs or bytes(4), Out(out), n, bits, signs is not None, rotated)
    enc.dispatch(pipeline, *args, threadgroups=out.size // n, group=team_for(n), shared=n * 4)
    return out


@op("softmax(softcap * tanh(scale * q @ k.T / softcap)) @ v, with k and v from tq_quantize_kv", fn=())
def tq_sdpa_decode(
    enc: Encoder,
    q: MlxBuffer,
    k: Codes,
    v: Codes,
    *,
    length: Count,
    bits: int,
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    signs: MlxBuffer | None = None,
    out: Output = None,
) -> MlxBuffer:
    """Attention of one query per head, q [batch, heads, 1, n], over caches [batch, key heads, capacity, ...].

    Query and result are rotated instead of keys and values. `length` counts the positions so far, a number or a u32
    buffer with one per sequence; beyond the capacity, position p is at p % capacity. A query sees the last `window`
    positions in the cache; without any, the result is 0. `scale` defaults to 1 / sqrt(n).
    """
    n = _row_length("q", q, bits, most=512)
    caches = _pair("k", k), _pair("v", v)
    if q.ndim != 4 or q.shape[2] != 1 or caches[0][0].ndim != 4:
        raise InvalidArgument(
            f"q is {shown(q)} and the codes of k {shown(caches[0][0])}, expected [batch, heads, 1, n] "
            "and [batch, key heads, capacity, bytes]"
        )
    batch, heads = q.shape[:2]
    kv_heads, capacity = _check_caches(caches, batch, heads, n, bits)
    check_signs(signs, n)
    options = struct.pack("3I2f", kv_heads, capacity, *_scores(n, window, scale, softcap))
    lengths = _each("length", length, batch)
    out = result(enc, out, q.shape, q.dtype)
    _attend(enc, q, caches, lengths, options, signs, out, bits)
    return out


def _attend(
    enc: Encoder,
    q: MlxBuffer,
    caches: tuple[Codes, Codes],
    lengths: MlxBuffer | bytes,
    options: bytes,
    signs: MlxBuffer | None,
    out: MlxBuffer,
    bits: int,
) -> None:
    """Attends to parts of the keys separately, then merges the results and rotates them back."""
    batch, heads, _, n = q.shape
    capacity = caches[0][0].shape[2]
    rotated = enc.empty((batch * heads, n), DType.F32)
    transform_rows(enc, q.reshape(batch * heads, n), rotated, 1 / math.sqrt(n), signs)
    shares = min(_MOST_SHARES, -(-capacity // _SHARE_KEYS))
    sums, weights = (enc.empty((batch * heads, shares, width), DType.F32) for width in (n, 2))
    share = kernel(enc, "turboquant", "tq_sdpa_share", {"BITS": bits, "PER_LANE": n // SIMD})
    inputs = (rotated, *caches[0], *caches[1], lengths, Out(sums), Out(weights), options)
    enc.dispatch(share, *inputs, threadgroups=(shares, heads, batch), group=SIMD, kind=CapturedOpKind.Sdpa)
    merge = kernel(enc, "turboquant", f"tq_sdpa_merge_{q.dtype}")
    args = (sums, weights, signs or bytes(4), Out(out), n, shares, signs is not None)
    enc.dispatch(merge, *args, threadgroups=batch * heads, group=team_for(n), shared=n * 4)


def _check_caches(caches: tuple[Codes, Codes], batch: int, heads: int, n: int, bits: int) -> tuple[int, int]:
    """Checks keys and values; returns their heads and capacity."""
    kv_heads, capacity = caches[0][0].shape[1:3]
    if heads % kv_heads:
        raise InvalidArgument(f"q has {heads} heads, expected a multiple of the {kv_heads} of k")
    for which, pair in zip("kv", caches, strict=True):
        _check_cache(which, *pair, (batch, kv_heads, capacity), n, bits)
    return kv_heads, capacity


def _quantize(
    enc: Encoder,
    x: MlxBuffer,
    axes: tuple[int, int, int, int],
    cache: Codes,
    positions: MlxBuffer | bytes,
    form: tuple[int, int, bool],
    signs: MlxBuffer | None,
    tokens_first: bool,
) -> None:
    """`form` is bits, capacity and ring. The cache keeps other rows, so it is not only written."""
    batch, heads, tokens, n = axes
    check_signs(signs, n)
    pipeline = kernel(enc, "turboquant", f"tq_quantize_{x.dtype}")
    args = (x, signs or bytes(4), positions, *cache, n, *form, signs is not None, tokens_first)
    enc.dispatch(pipeline, *args, threadgroups=(heads, tokens, batch), group=team_for(n), shared=n * 4)


def _widths(n: int, bits: int) -> tuple[tuple[int, DType], tuple[int, DType]]:
    """Width and type of codes and norms."""
    return (n // 8 * bits, DType.U8), (max(1, n // _BLOCK), DType.F32)


def _checked_bits(bits: int) -> int:
    if whole(bits, "bits", 1) > 8:
        raise InvalidArgument(f"bits is {bits}, expected 1 to 8")
    return bits


def _row_length(name: str, x: MlxBuffer, bits: int, most: int = _LONGEST) -> int:
    check_dtype(name, x)
    _checked_bits(bits)
    return _check_length(name, x, x.shape[-1] if x.shape else 0, most)


def _check_length(name: str, buffer: MlxBuffer, n: int, most: int = _LONGEST) -> int:
    if not (is_power(n) and SIMD <= n <= most):
        raise InvalidArgument(f"{name} is {shown(buffer)}, expected rows of 2^k values, {SIMD} to {most}")
    return n


def _pair(name: str, cache: Codes) -> Codes:
    if not (isinstance(cache, tuple) and len(cache) == 2 and all(isinstance(each, MlxBuffer) for each in cache)):
        raise InvalidArgument(f"{name} is {cache!r}, expected codes and norms as a tuple")
    return cache


def _check_cache(name: str, codes: MlxBuffer, norms: MlxBuffer, axes: tuple[int, ...], n: int, bits: int) -> None:
    for part, each, (width, dtype) in zip(("codes", "norms"), (codes, norms), _widths(n, bits), strict=True):
        what = f"{part} of {name}" if name else part
        check_dtype(what, each, (dtype,))
        check_shape(what, each, (*axes, width), f"rows of {n} values in {bits} bits")


def _each(name: str, given: Count, batch: int) -> MlxBuffer | bytes:
    """A number per sequence, as the kernel reads them."""
    if not isinstance(given, MlxBuffer):
        if whole(given, f"{name}") >= 2**32:
            raise InvalidArgument(f"{name} is {given}, expected less than 2**32")
        return struct.pack("I", given) * batch
    check_dtype(name, given, (DType.U32,))
    check_shape(name, given, (batch,), "one for each sequence")
    return given


def _scores(n: int, window: int | None, scale: float | None, softcap: float | None) -> tuple[int, float, float]:
    """Window, scale and softcap as the kernel takes them: 0 means none."""
    if softcap is not None and not softcap > 0:
        raise InvalidArgument(f"softcap is {softcap!r}, expected more than 0")
    reach = 0 if window is None else whole(window, "window", 1)
    return reach, 1 / math.sqrt(n) if scale is None else scale, softcap or 0.0
