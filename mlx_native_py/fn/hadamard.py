"""The Walsh-Hadamard transform."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..memory.buffer import MlxBuffer
from .call import call

__all__ = ["hadamard_transform"]


def hadamard_transform(a: Any, scale: float | None = None, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The transform of the last axis, of m * 2^k values with m one of 1, 12, 20, 28; scale is 1 / sqrt(n) unless given.

    >>> fn.hadamard_transform(np.float32([1, 2, 3, 4]), 1.0).numpy()
    array([10., -2., -4.,  0.], dtype=float32)
    """
    with call(stream) as run:
        return ops.hadamard_transform(run.enc, run.put(a, "a"), scale=scale)  # type: ignore[no-any-return]
