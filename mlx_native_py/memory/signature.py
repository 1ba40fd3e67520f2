"""Buffer signatures: element type, shape and alignment as one interned object, used as a cache key for ops."""

from __future__ import annotations

import math
from typing import Any

from ..dtypes import DType

__all__ = ["Signature", "signature_of"]

_ALIGNED = 256


class Signature:
    """Element type, shape, misalignment and writability; equal signatures are the same object."""

    __slots__ = ("dtype", "misalignment", "nbytes", "readonly", "reshaped", "shape")

    def __init__(self, dtype: DType, shape: tuple[int, ...], misalignment: int, readonly: bool) -> None:
        self.dtype = dtype
        self.shape = shape
        self.misalignment = misalignment
        self.readonly = readonly
        self.nbytes = math.prod(shape) * dtype.size
        self.reshaped: dict[Any, Signature] = {}
        """Signatures of the same bytes with other shapes, by the arguments of `reshape`."""


_signatures: dict[tuple[DType, tuple[int, ...], int, bool], Signature] = {}


def signature_of(dtype: DType, shape: tuple[int, ...], offset: int = 0, readonly: bool = False) -> Signature:
    """The interned signature of such a buffer."""
    key = (dtype, shape, offset % _ALIGNED, readonly)
    signature = _signatures.get(key)
    return _signatures.setdefault(key, Signature(*key)) if signature is None else signature
