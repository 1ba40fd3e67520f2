"""The gated delta rule, token by token, with the state of each head updated in place."""

from __future__ import annotations

import struct

from ...encoder import Encoder, Out
from ...memory.buffer import MlxBuffer
from ..delta_sizes import KeyHeads, check_delta
from ..op import Output, op
from ..support import SIMD, kernel, result

__all__ = ["gated_delta_net"]

_ROWS = 4
"""State rows per threadgroup, one simdgroup each."""


@op("S = exp(-g) S; S += beta (v - S k) k^T; out = scale S q, for each token")
def gated_delta_net(
    enc: Encoder,
    q: MlxBuffer,
    k: MlxBuffer,
    v: MlxBuffer,
    g: MlxBuffer,
    beta: MlxBuffer,
    state: MlxBuffer,
    *,
    scale: float = 1.0,
    norm_eps: float | None = None,
    key_heads: KeyHeads = "grouped",
    out: Output = None,
) -> MlxBuffer:
    """The queries' results, in the shape and type of v; `state` is updated in place.

    q and k are [sequences, tokens, key heads, key dim], v is [sequences, tokens, heads, value dim], g and beta are f32
    [sequences, tokens, heads], state is f32 [sequences, heads, value dim, key dim]. Value head h uses key head
    h // (heads / key heads), or h % key heads if `key_heads` is "tiled". `norm_eps` normalises each q and k first:
    x / sqrt(sum(x^2) + norm_eps).
    """
    sizes = check_delta(q, k, v, g, beta, state, key_heads)
    out = result(enc, out, v.shape, v.dtype)
    per_lane = -(-sizes.key_dim // SIMD)
    pipeline = kernel(enc, "delta_net", f"gated_delta_net_{v.dtype}", {"PER_LANE": per_lane})
    axes = struct.pack("4I", sizes.tokens, sizes.key_heads, sizes.key_dim, sizes.value_dim)
    options = (scale, norm_eps or 0.0, norm_eps is not None, bool(sizes.tiled))
    groups = (-(-sizes.value_dim // _ROWS), sizes.heads, sizes.sequences)
    enc.dispatch(pipeline, q, k, v, g, beta, state, Out(out), axes, *options, threadgroups=groups, group=SIMD * _ROWS)
    return out
