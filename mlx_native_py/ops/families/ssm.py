"""State-space layers: causal convolution, gated norm, and gates of the delta rule."""

from __future__ import annotations

from ...dtypes import DType
from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..op import Output, op
from ..support import SIMD, check_dtype, check_shape, kernel, one_dtype, result, rows_of, shown

__all__ = ["compute_g_beta", "ssm_conv", "ssm_norm_gate"]

_SPAN = 16
"""Tokens per thread of the convolution."""


@op("y[t] = silu(sum_k weight[k] * (state || x)[t + k]); state = the last K - 1 of state || x")
def ssm_conv(enc: Encoder, x: MlxBuffer, weight: MlxBuffer, state: MlxBuffer, *, out: Output = None) -> MlxBuffer:
    """A causal convolution per channel, then SiLU; `state` is updated in place.

    x is [sequences, tokens, channels], weight [channels, K] with K >= 2, state [sequences, channels, K - 1].
    """
    dtype = one_dtype(x=x, weight=weight, state=state)
    if x.ndim != 3 or weight.ndim != 2:
        raise InvalidArgument(
            f"x is {shown(x)} and weight {shown(weight)}, expected [sequences, tokens, channels] and [channels, taps]"
        )
    sequences, tokens, channels = x.shape
    taps = weight.shape[1]
    if taps < 2:
        raise InvalidArgument(f"weight is {shown(weight)}, expected at least 2 taps")
    check_shape("weight", weight, (channels, taps), "a row for each channel of x")
    check_shape("state", state, (sequences, channels, taps - 1), "[sequences, channels, taps - 1]")
    out = result(enc, out, x.shape, dtype)
    span = max(_SPAN, taps - 1)
    pipeline = kernel(enc, "ssm", f"ssm_conv_{dtype}")
    threads = (channels, -(-tokens // span), sequences)
    enc.dispatch(pipeline, x, weight, state, Out(out), channels, tokens, taps, span, threads=threads)
    return out


@op("x / sqrt(mean(x^2) + eps) * weight * silu(z)")
def ssm_norm_gate(
    enc: Encoder,
    x: MlxBuffer,
    weight: MlxBuffer,
    z: MlxBuffer,
    *,
    eps: float = 1e-6,
    out: Output = None,
) -> MlxBuffer:
    """The RMS norm of each row, times the SiLU of its gate."""
    dtype = one_dtype(x=x, weight=weight, z=z)
    rows, n = rows_of("x", x)
    check_shape("weight", weight, (n,), "the last axis of x")
    check_shape("z", z, x.shape, "the shape of x")
    out = result(enc, out, x.shape, dtype)
    pipeline = kernel(enc, "ssm", f"ssm_norm_gate_{dtype}")
    enc.dispatch(pipeline, x, weight, z, Out(out), n, eps, threadgroups=rows, group=SIMD)
    return out


@op("g = softplus(a + dt_bias) * -ssm_a, beta = sigmoid(b)")
def compute_g_beta(
    enc: Encoder,
    a: MlxBuffer,
    b: MlxBuffer,
    dt_bias: MlxBuffer,
    ssm_a: MlxBuffer,
    *,
    g: Output = None,
    beta: Output = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """The decay g and strength beta of each head, f32, for rows of a and b; dt_bias and ssm_a are f32 [heads]."""
    dtype = one_dtype(a=a, b=b)
    rows, heads = rows_of("a", a)
    check_shape("b", b, a.shape, "the shape of a")
    for name, each in (("dt_bias", dt_bias), ("ssm_a", ssm_a)):
        check_dtype(name, each, (DType.F32,))
        check_shape(name, each, (heads,), "one for each head")
    for name, given in (("g", g), ("beta", beta)):
        if given is not None:
            check_dtype(name, given, (DType.F32,))
            check_shape(name, given, a.shape, "the shape of a")
    g, beta = g or enc.empty(a.shape, DType.F32), beta or enc.empty(a.shape, DType.F32)
    pipeline = kernel(enc, "ssm", f"compute_g_beta_{dtype}")
    enc.dispatch(pipeline, a, b, dt_bias, ssm_a, Out(g), Out(beta), heads, threads=(heads, rows))
    return g, beta
