"""Softmax and its kin."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..memory.buffer import MlxBuffer
from .axes import Axis, Rows
from .call import call

__all__ = ["logsumexp", "scale_mask_softmax", "softmax"]


def softmax(a: Any, axis: Axis = None, *, precise: bool = False, stream: MlxDevice | None = None) -> MlxBuffer:
    """exp(a) / sum(exp(a)) along axes, or over all; sums are in float32 whether `precise` or not.

    >>> fn.softmax(np.log(np.float32([[1, 3], [2, 2]])), axis=-1).numpy().round(4)
    array([[0.25, 0.75],
           [0.5 , 0.5 ]], dtype=float32)
    """
    with call(stream) as run:
        rows = Rows(run, "softmax", run.put(a, "a"), axis)
        return rows.back(ops.softmax(run.enc, rows.buffer))


def logsumexp(a: Any, axis: Axis = None, keepdims: bool = False, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """log(sum(exp(a))) along axes, or over all.

    >>> fn.logsumexp(np.log(np.float32([[1, 3], [2, 6]])), axis=1).numpy().round(4)
    array([1.3863, 2.0794], dtype=float32)
    """
    with call(stream) as run:
        rows = Rows(run, "logsumexp", run.put(a, "a"), axis)
        return rows.reduced(ops.logsumexp(run.enc, rows.buffer), keepdims)


def scale_mask_softmax(x: Any, mask: Any, *, scale: float = 1.0, stream: MlxDevice | None = None) -> MlxBuffer:
    """softmax(x * scale + mask) along the last axis; a boolean mask keeps where it is true.

    >>> fn.scale_mask_softmax(np.zeros((2, 2), "f4"), np.tri(2, dtype=bool)).numpy()
    array([[1. , 0. ],
           [0.5, 0.5]], dtype=float32)
    """
    with call(stream) as run:
        return ops.scale_mask_softmax(  # type: ignore[no-any-return]
            run.enc, run.put(x, "x"), run.put(mask, "mask"), scale=scale
        )
