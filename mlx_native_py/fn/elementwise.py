"""One value out for each value in."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..buffer import MlxBuffer
from ..device import MlxDevice
from .call import call

__all__ = ["add"]


def add(a: Any, b: Any, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The sum of two arrays of one shape.

    >>> fn.add(np.float32([1, 2]), np.float32([10, 20])).numpy()
    array([11., 22.], dtype=float32)
    """
    with call(stream) as run:
        return ops.add(run.enc, run.put(a, "a"), run.put(b, "b"))  # type: ignore[no-any-return]
