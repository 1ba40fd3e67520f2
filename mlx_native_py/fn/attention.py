"""Attention."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .call import call

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float,
    mask: Any = None,
    sinks: Any = None,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """softmax(scale * q @ k.T + mask) @ v for q [batch, heads, queries, dim], k and v [batch, kv_heads, keys, dim].

    The number of kv_heads divides that of heads. `mask` is "causal" (the last query stands at the last key), or an
    array that broadcasts to [batch, heads, queries, keys]: booleans, true where a key counts, or numbers to be added.
    `sinks` has a logit per head that joins the softmax.

    >>> q, k = np.ones((1, 2, 1, 64), "f4"), np.ones((1, 1, 3, 64), "f4")
    >>> v = np.arange(3, dtype="f4").repeat(64).reshape(1, 1, 3, 64)
    >>> fn.scaled_dot_product_attention(q, k, v, scale=0.125).numpy()[0, :, 0, 0]
    array([1., 1.], dtype=float32)
    """
    if isinstance(mask, str) and mask != "causal":
        raise InvalidArgument(f'scaled_dot_product_attention: mask is {mask!r}, expected "causal" or an array')
    causal = isinstance(mask, str)
    with call(stream) as run:
        return ops.sdpa(  # type: ignore[no-any-return]
            run.enc,
            *(run.put(q, "q"), run.put(k, "k"), run.put(v, "v")),
            scale=scale,
            causal=causal,
            mask=None if mask is None or causal else run.put(mask, "mask"),
            sinks=None if sinks is None else run.put(sinks, "sinks"),
        )
