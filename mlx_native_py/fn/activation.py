"""Activations and their gated forms."""

from __future__ import annotations

from typing import Any

from ..device import MlxDevice
from ..memory.buffer import MlxBuffer
from ..ops import activation as ops
from .call import call

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


def silu(x: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The sigmoid-weighted linear unit: x / (1 + exp(-x)).

    >>> fn.silu(np.float32([0, 1])).numpy()
    array([0.       , 0.7310586], dtype=float32)
    """
    with call(stream) as run:
        return ops.silu(run.enc, run.put(x, "x"))


def gelu(x: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The Gaussian error linear unit: x * (1 + erf(x / sqrt(2))) / 2.

    >>> fn.gelu(np.float32([0, 1])).numpy()
    array([0.       , 0.8413447], dtype=float32)
    """
    with call(stream) as run:
        return ops.gelu(run.enc, run.put(x, "x"))


def gelu_approx(x: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The Gaussian error linear unit in its form with tanh.

    >>> fn.gelu_approx(np.float32([0, 1])).numpy()
    array([0.      , 0.841192], dtype=float32)
    """
    with call(stream) as run:
        return ops.gelu_approx(run.enc, run.put(x, "x"))


def sigmoid(a: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The logistic function: 1 / (1 + exp(-x)).

    >>> fn.sigmoid(np.float32([0, 1])).numpy()
    array([0.5      , 0.7310586], dtype=float32)
    """
    with call(stream) as run:
        return ops.sigmoid(run.enc, run.put(a, "a"))


def tanh(a: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The hyperbolic tangent.

    >>> fn.tanh(np.float32([0, 1])).numpy()
    array([0.       , 0.7615942], dtype=float32)
    """
    with call(stream) as run:
        return ops.tanh(run.enc, run.put(a, "a"))


def exp(a: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The exponential.

    >>> fn.exp(np.float32([0, 1])).numpy()
    array([1.       , 2.7182817], dtype=float32)
    """
    with call(stream) as run:
        return ops.exp(run.enc, run.put(a, "a"))


def log(a: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The natural logarithm.

    >>> fn.log(np.float32([1, 2])).numpy()
    array([0.       , 0.6931472], dtype=float32)
    """
    with call(stream) as run:
        return ops.log(run.enc, run.put(a, "a"))


def silu_mul(gate: Any, up: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The gate of SwiGLU: silu(gate) * up.

    >>> fn.silu_mul(np.float32([0, 1]), np.float32([3, 3])).numpy()
    array([0.       , 2.1931758], dtype=float32)
    """
    with call(stream) as run:
        return ops.silu_mul(run.enc, run.put(gate, "gate"), run.put(up, "up"))


def gelu_mul(gate: Any, up: Any, *, approximate: bool = True, stream: MlxDevice | None = None) -> MlxBuffer:
    """The gate of GeGLU: gelu(gate) * up, in the form with tanh or exact.

    >>> fn.gelu_mul(np.float32([0, 1]), np.float32([3, 3])).numpy()
    array([0.      , 2.523576], dtype=float32)
    """
    with call(stream) as run:
        return ops.gelu_mul(run.enc, run.put(gate, "gate"), run.put(up, "up"), approximate=approximate)


def sigmoid_mul(x: Any, gate: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """An array let through by a gate: x * sigmoid(gate).

    >>> fn.sigmoid_mul(np.float32([3, 3]), np.float32([0, 1])).numpy()
    array([1.5      , 2.1931758], dtype=float32)
    """
    with call(stream) as run:
        return ops.sigmoid_mul(run.enc, run.put(x, "x"), run.put(gate, "gate"))


def softcap(x: Any, cap: float, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Values kept between -cap and cap: cap * tanh(x / cap).

    >>> fn.softcap(np.float32([0, 1000]), 30.0).numpy()
    array([ 0., 30.], dtype=float32)
    """
    with call(stream) as run:
        return ops.softcap(run.enc, run.put(x, "x"), cap)
