"""Rotary position embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from .. import ops
from ..device import MlxDevice
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .call import call
from .inputs import maybe, whole

__all__ = ["rope", "rope_2d", "rope_at", "rope_multi"]


def rope(
    a: Any,
    dims: int,
    *,
    traditional: bool = False,
    base: float | None = 10000.0,
    scale: float = 1.0,
    offset: Any = 0,
    freqs: Any = None,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """RoPE over the first `dims` of a[..., tokens, width]; pair i is (2i, 2i+1) if `traditional`, else (i, i + dims/2).

    The angle is (offset + t) * scale * base^(-2i/dims), or (offset + t) * scale / freqs[i] where `base` is None.
    `offset` is a number, or one per sequence, the first axis.

    >>> fn.rope(np.float32([[[1, 0], [1, 0]]]), 2).numpy().round(3)
    array([[[1.   , 0.   ],
            [0.54 , 0.841]]], dtype=float32)
    """
    if (base is None) == (freqs is None):
        raise InvalidArgument("rope: exactly one of base and freqs has to be None")
    with call(stream) as run:
        return ops.rope(  # type: ignore[no-any-return]
            run.enc,
            run.put(a, "a"),
            dims=dims,
            traditional=traditional,
            base=base,
            scale=scale,
            offset=whole(run, offset, "offset"),
            factors=maybe(run, freqs, "freqs"),
        )


def rope_at(
    x: Any,
    positions: Any,
    *,
    dims: int | None = None,
    traditional: bool = False,
    base: float | None = 10000.0,
    scale: float = 1.0,
    factors: Any = None,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """RoPE over x[tokens, heads, width] with a position per token; `factors` divide the frequencies.

    >>> fn.rope_at(np.float32([[[1, 0]], [[1, 0]]]), [1, 0]).numpy().round(3)
    array([[[0.54 , 0.841]],
    <BLANKLINE>
           [[1.   , 0.   ]]], dtype=float32)
    """
    with call(stream) as run:
        return ops.rope_at(  # type: ignore[no-any-return]
            run.enc,
            run.put(x, "x"),
            whole(run, positions, "positions"),
            dims=dims,
            traditional=traditional,
            base=base,
            scale=scale,
            factors=maybe(run, factors, "factors"),
        )


def rope_multi(
    x: Any,
    positions: Any,
    *,
    sections: Sequence[int],
    mode: Literal["mrope", "imrope", "vision"] = "mrope",
    dims: int | None = None,
    base: float = 10000.0,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """RoPE over x[tokens, heads, width] whose sections of pairs go by different axes of positions[axes, tokens].

    >>> fn.rope_multi(np.float32([[[1, 1, 0, 0]]]), [[1], [0]], sections=[1, 1], base=1.0).numpy().round(3)
    array([[[0.54 , 1.   , 0.841, 0.   ]]], dtype=float32)
    """
    with call(stream) as run:
        where = whole(run, positions, "positions")
        return ops.rope_multi(  # type: ignore[no-any-return]
            run.enc, run.put(x, "x"), where, sections=sections, mode=mode, dims=dims, base=base
        )


def rope_2d(x: Any, positions: Any, *, base: float = 10000.0, stream: MlxDevice | None = None) -> MlxBuffer:
    """RoPE over each half of the heads of x[tokens, heads, width], by positions[0] and by positions[1].

    >>> fn.rope_2d(np.float32([[[1, 0, 1, 0]]]), [[1], [0]]).numpy().round(3)
    array([[[0.54 , 0.841, 1.   , 0.   ]]], dtype=float32)
    """
    with call(stream) as run:
        where = whole(run, positions, "positions")
        return ops.rope_2d(run.enc, run.put(x, "x"), where, base=base)  # type: ignore[no-any-return]
