"""Model layers with MLX's arguments, or with explicit state."""

from __future__ import annotations

import numpy as np

from ... import ops
from ...device import MlxDevice
from ...dtypes import DType
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer, as_array
from ..call import Array, FunctionCall, call

__all__ = ["gated_delta_net", "residual_rms_norm", "rope", "scaled_dot_product_attention", "ssm_conv"]

_CHUNKED_FROM = 64
"""Tokens from which on chunks are worth their preparation."""


def scaled_dot_product_attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float,
    mask: Array | None = None,
    sinks: Array | None = None,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """softmax(scale * q @ k.T + mask) @ v for q [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim].

    kv_heads must divide heads. `mask` is "causal" (the last query is at the last key), or an array that broadcasts to
    [batch, heads, queries, keys]: booleans, true to attend, or numbers to add. `sinks` adds a logit per head to the
    softmax.

    >>> q, k = np.ones((1, 2, 1, 64), "f4"), np.ones((1, 1, 3, 64), "f4")
    >>> v = np.arange(3, dtype="f4").repeat(64).reshape(1, 1, 3, 64)
    >>> fn.scaled_dot_product_attention(q, k, v, scale=0.125).numpy()[0, :, 0, 0]
    array([1., 1.], dtype=float32)
    """
    if isinstance(mask, str) and mask != "causal":
        raise InvalidArgument(f'scaled_dot_product_attention: mask is {mask!r}, expected "causal" or an array')
    causal = isinstance(mask, str)
    with call(stream, q, k, v, mask, sinks) as run:
        return ops.sdpa(
            run.enc,
            *(run.put(q, "q"), run.put(k, "k"), run.put(v, "v")),
            scale=scale,
            causal=causal,
            mask=None if causal else run.put_if(mask, "mask"),
            sinks=run.put_if(sinks, "sinks"),
        )


def rope(
    a: Array,
    dims: int,
    *,
    traditional: bool = False,
    base: float | None = 10000.0,
    scale: float = 1.0,
    offset: Array | int = 0,
    freqs: Array | None = None,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """RoPE over the first `dims` of a[..., tokens, width]; pair i is (2i, 2i+1) if `traditional`, else (i, i + dims/2).

    The angle is (offset + t) * scale * base^(-2i/dims), or (offset + t) * scale / freqs[i] if `base` is None. `offset`
    is a number, or one per sequence (the first axis).

    >>> fn.rope(np.float32([[[1, 0], [1, 0]]]), 2).numpy().round(3)
    array([[[1.   , 0.   ],
            [0.54 , 0.841]]], dtype=float32)
    """
    if (base is None) == (freqs is None):
        raise InvalidArgument("rope: exactly one of base and freqs must be None")
    with call(stream, a, offset, freqs) as run:
        return ops.rope(
            run.enc,
            run.put(a, "a"),
            dims=dims,
            traditional=traditional,
            base=base,
            scale=scale,
            offset=run.put_count(offset, "offset"),
            factors=run.put_if(freqs, "freqs"),
        )


def residual_rms_norm(
    x: Array,
    residual: Array,
    weight: Array | None = None,
    eps: float = 1e-5,
    *,
    scale: float = 1.0,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """rms_norm(residual + x) * weight * scale, and residual + x."""
    with call(stream, x, residual, weight) as run:
        given = run.put(x, "x")
        total = run.enc.device.empty(given.shape, given.dtype)
        beside, weights = run.put(residual, "residual"), run.put_if(weight, "weight")
        normed = ops.residual_rms_norm(run.enc, given, beside, weights, eps=eps, scale=scale, sum=total)
        return normed, total


def ssm_conv(
    x: Array, weight: Array, state: Array | None = None, *, stream: MlxDevice | None = None
) -> tuple[MlxBuffer, MlxBuffer]:
    """silu of the causal convolution of x [sequences, tokens, channels] by weight [channels, K], and its state."""
    with call(stream, x, weight, state) as run:
        inputs, taps = run.put(x, "x"), run.put(weight, "weight")
        shape = (inputs.shape[0], inputs.shape[-1], max(1, taps.shape[-1] - 1))
        kept = _own(run, state, shape, inputs.dtype)
        return ops.ssm_conv(run.enc, inputs, taps, kept), kept


def gated_delta_net(
    q: Array,
    k: Array,
    v: Array,
    g: Array,
    beta: Array,
    state: Array | None = None,
    *,
    scale: float = 1.0,
    norm_eps: float | None = None,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """The gated delta rule over tokens, and the final state; shapes as in `ops.gated_delta_net`."""
    with call(stream, q, k, v, g, beta, state) as run:
        keys, values = run.put(k, "k"), run.put(v, "v")
        kept = _own(run, state, (values.shape[0], *values.shape[-2:], keys.shape[-1]), DType.F32)
        chunked = values.ndim == 4 and values.shape[1] >= _CHUNKED_FROM
        rule = ops.gated_delta_net_chunked if chunked else ops.gated_delta_net
        queries, decay, strength = run.put(q, "q"), run.put(g, "g"), run.put(beta, "beta")
        return rule(run.enc, queries, keys, values, decay, strength, kept, scale=scale, norm_eps=norm_eps), kept


def _own(run: FunctionCall, state: Array | None, shape: tuple[int, ...], dtype: DType) -> MlxBuffer:
    """A copy of the state, or zeros."""
    return run.enc.device.buffer(np.zeros(shape, dtype.numpy) if state is None else as_array(state))
