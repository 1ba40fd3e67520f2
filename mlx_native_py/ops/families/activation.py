"""Activation functions and their gated forms."""

from __future__ import annotations

import math

from ...encoder import Encoder
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..flat import for_each
from ..op import FLOATS, Output, op
from ..support import check_shape, kernel, one_dtype, result

__all__ = [
    "exp",
    "gelu",
    "gelu_approx",
    "gelu_mul",
    "log",
    "sigmoid",
    "sigmoid_mul",
    "silu",
    "silu_mul",
    "softcap",
    "tanh",
]


@op("x / (1 + exp(-x))")
def silu(enc: Encoder, x: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The sigmoid-weighted linear unit, also called swish."""
    return _one(enc, "silu", x, out)


@op("x * (1 + erf(x / sqrt(2))) / 2")
def gelu(enc: Encoder, x: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The Gaussian error linear unit, exact; `gelu_approx` has the form with tanh."""
    return _one(enc, "gelu", x, out)


@op("x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2")
def gelu_approx(enc: Encoder, x: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The Gaussian error linear unit in its form with tanh."""
    return _one(enc, "gelu_approx", x, out)


@op("1 / (1 + exp(-x))")
def sigmoid(enc: Encoder, x: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The logistic function."""
    return _one(enc, "sigmoid", x, out)


@op("tanh(x)")
def tanh(enc: Encoder, x: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The hyperbolic tangent."""
    return _one(enc, "tanh", x, out)


@op("exp(x)")
def exp(enc: Encoder, x: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The exponential."""
    return _one(enc, "exp", x, out)


@op("log(x)")
def log(enc: Encoder, x: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The natural logarithm: -inf of 0, NaN below."""
    return _one(enc, "log", x, out)


@op("silu(gate) * up")
def silu_mul(enc: Encoder, gate: MlxBuffer, up: MlxBuffer, out: Output = None) -> MlxBuffer:
    """The gate of SwiGLU."""
    return _gated(enc, "silu_mul", gate, up, out)


@op("gelu_approx(gate) * up; gelu(gate) * up")
def gelu_mul(
    enc: Encoder, gate: MlxBuffer, up: MlxBuffer, *, approximate: bool = True, out: Output = None
) -> MlxBuffer:
    """The gate of GeGLU, with tanh as in Gemma, or exact."""
    return _gated(enc, "gelu_approx_mul" if approximate else "gelu_mul", gate, up, out)


@op("x * sigmoid(gate)")
def sigmoid_mul(enc: Encoder, x: MlxBuffer, gate: MlxBuffer, out: Output = None) -> MlxBuffer:
    """A buffer multiplied by a sigmoid gate."""
    return _gated(enc, "sigmoid_mul", gate, x, out, other="x")


@op("cap * tanh(x / cap)")
def softcap(enc: Encoder, x: MlxBuffer, cap: float, out: Output = None) -> MlxBuffer:
    """Limits values smoothly to -cap..cap."""
    if not 0.0 < cap < math.inf:
        raise InvalidArgument(f"cap is {cap!r}, expected a number above 0")
    dtype = one_dtype(x=x)
    out = result(enc, out, x.shape, dtype)
    return for_each(enc, kernel(enc, "activation", f"softcap_{dtype}"), (x,), out, float(cap))


def _one(enc: Encoder, name: str, x: MlxBuffer, out: Output) -> MlxBuffer:
    dtype = one_dtype(x=x)
    out = result(enc, out, x.shape, dtype)
    return for_each(enc, kernel(enc, "activation", f"{name}_{dtype}"), (x,), out)


def _gated(enc: Encoder, name: str, gate: MlxBuffer, up: MlxBuffer, out: Output, *, other: str = "up") -> MlxBuffer:
    dtype = one_dtype(FLOATS, **{"gate": gate, other: up})
    check_shape("gate", gate, up.shape, "the shape of the other input")
    out = result(enc, out, up.shape, dtype)
    return for_each(enc, kernel(enc, "activation", f"{name}_{dtype}"), (gate, up), out)
