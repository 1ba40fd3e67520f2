"""The type and shape of a buffer as one object, equal for equal ones: what decides how an op runs on it."""

from __future__ import annotations

import math
from typing import Any

from ..dtypes import DType

__all__ = ["Signature", "signature_of"]

_ALIGNED = 256


class Signature:
    """Element type, shape, distance from an aligned offset, and whether it may be written; one object for each."""

    __slots__ = ("dtype", "misalignment", "nbytes", "readonly", "reshaped", "shape")

    def __init__(self, dtype: DType, shape: tuple[int, ...], misalignment: int, readonly: bool) -> None:
        self.dtype = dtype
        self.shape = shape
        self.misalignment = misalignment
        self.readonly = readonly
        self.nbytes = math.prod(shape) * dtype.size
        self.reshaped: dict[Any, Signature] = {}
        """The signatures of the same bytes under other shapes, by what the caller wrote."""


_signatures: dict[tuple[DType, tuple[int, ...], int, bool], Signature] = {}


def signature_of(dtype: DType, shape: tuple[int, ...], offset: int = 0, readonly: bool = False) -> Signature:
    """The one signature of such buffers."""
    key = (dtype, shape, offset % _ALIGNED, readonly)
    signature = _signatures.get(key)
    return _signatures.setdefault(key, Signature(*key)) if signature is None else signature
