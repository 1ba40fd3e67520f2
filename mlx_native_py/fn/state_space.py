"""Layers with a state: what goes in stays as it is, and the new state comes out beside the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..device import MlxDevice
from ..dtypes import DType
from ..memory.buffer import MlxBuffer, as_array
from .call import Call, call

__all__ = ["gated_delta_net", "ssm_conv"]

_CHUNKED_FROM = 64
"""Tokens from which on chunks are worth their preparation."""


def ssm_conv(x: Any, weight: Any, state: Any = None, *, stream: MlxDevice | None = None) -> tuple[MlxBuffer, MlxBuffer]:
    """silu of the causal convolution of x [sequences, tokens, channels] by weight [channels, K], and its last inputs.

    >>> y, state = fn.ssm_conv(np.float32([[[1], [2]]]), np.float32([[0.5, 1]]))
    >>> y.numpy().ravel().round(3), state.numpy().ravel()
    (array([0.731, 2.31 ], dtype=float32), array([2.], dtype=float32))
    """
    with call(stream) as run:
        inputs, taps = run.put(x, "x"), run.put(weight, "weight")
        shape = (inputs.shape[0], inputs.shape[-1], max(1, taps.shape[-1] - 1))
        kept = _own(run, state, shape, inputs.dtype)
        return ops.ssm_conv(run.enc, inputs, taps, kept), kept


def gated_delta_net(
    q: Any,
    k: Any,
    v: Any,
    g: Any,
    beta: Any,
    state: Any = None,
    *,
    scale: float = 1.0,
    norm_eps: float | None = None,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """The gated delta rule over tokens, and the state after it; shapes as in `ops.gated_delta_net`.

    >>> one = np.ones((1, 1, 1, 1), np.float32)
    >>> out, state = fn.gated_delta_net(one, one, 3 * one, 0 * one[0], 0.5 * one[0])
    >>> out.numpy().ravel(), state.numpy().ravel()
    (array([1.5], dtype=float32), array([1.5], dtype=float32))
    """
    with call(stream) as run:
        given = zip((q, k, v, g, beta), ("q", "k", "v", "g", "beta"), strict=True)
        inputs = [run.put(each, name) for each, name in given]
        shape = (inputs[2].shape[0], *inputs[2].shape[-2:], inputs[1].shape[-1])
        kept = _own(run, state, shape, DType.F32)
        chunked = inputs[2].ndim == 4 and inputs[2].shape[1] >= _CHUNKED_FROM
        rule = ops.gated_delta_net_chunked if chunked else ops.gated_delta_net
        return rule(run.enc, *inputs, kept, scale=scale, norm_eps=norm_eps), kept


def _own(run: Call, state: Any, shape: tuple[int, ...], dtype: DType) -> MlxBuffer:
    """A copy of the state, or zeros."""
    return run.enc.device.buffer(np.zeros(shape, dtype.numpy) if state is None else as_array(state))
