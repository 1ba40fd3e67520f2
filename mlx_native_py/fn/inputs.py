"""Arguments that may be missing, and arguments that are whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .call import Call

__all__: list[str] = []


def maybe(run: Call, given: Any, name: str) -> MlxBuffer | None:
    """A buffer, or None where nothing was given."""
    return None if given is None else run.put(given, name)


def whole(run: Call, given: Any, name: str, dtype: str = "int32") -> Any:
    """A number as it is, or whole numbers in a buffer of the type that ops take."""
    if given is None or isinstance(given, (int, MlxBuffer)):
        return given
    array = np.asarray(given)
    if array.dtype.kind not in "iu":
        raise InvalidArgument(f"{name} is {array.dtype}{list(array.shape)}, expected whole numbers")
    return run.put(array.astype(dtype), name)
