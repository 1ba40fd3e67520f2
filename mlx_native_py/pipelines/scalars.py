"""MSL's scalar and vector types by MTLDataType, and packing of Python values."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from ..dtypes import DType
from ..errors import InvalidArgument

__all__ = ["ScalarType", "scalar_type"]

_BY_CODE = {dtype.code: dtype for dtype in DType}


@dataclass(frozen=True)
class ScalarType:
    """A scalar (`lanes` 1) or vector type of MSL.

    >>> scalar_type(35).name, scalar_type(35).pack((1, 2, 3), 16).hex()
    ('uint3', '01000000020000000300000000000000')
    """

    dtype: DType
    lanes: int

    @property
    def code(self) -> int:
        """Its MTLDataType."""
        return self.dtype.code + self.lanes - 1

    @property
    def name(self) -> str:
        """Its name in MSL."""
        return self.dtype.mtl if self.lanes == 1 else f"{self.dtype.mtl}{self.lanes}"

    def pack(self, value: Any, size: int) -> bytes:
        """`value` as this type, padded to `size` bytes (a vector of three takes the space of four)."""
        if self.lanes == 1:
            packed = self._lane(value)
        else:
            values = self._components(value)
            packed = b"".join(map(self._lane, values))
        return packed if len(packed) == size else packed.ljust(size, b"\0")

    def unpack(self, data: bytes) -> Any:
        """The number, or tuple of numbers, in `data`."""
        values = tuple(np.frombuffer(data, self.dtype.numpy, self.lanes).tolist())
        return values[0] if self.lanes == 1 else values

    def quick(self, size: int) -> Callable[..., bytes] | None:
        """A function that packs plain ints and floats, or raises `struct.error`; None for types unknown to struct."""
        if self.dtype in (DType.BOOL, DType.BF16):
            return None
        fill = size - self.lanes * self.dtype.size
        return struct.Struct(f"<{self.lanes}{self.dtype.format}{fill}x").pack if fill >= 0 else None

    def _components(self, value: Any) -> Sequence[Any]:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or len(value) != self.lanes:
            raise InvalidArgument(f"{value!r} is not a {self.name}: expected {self.lanes} numbers")
        return tuple(value)

    def _lane(self, value: Any) -> bytes:
        try:
            return _packer(self.dtype)(value)
        except (struct.error, OverflowError):
            raise InvalidArgument(f"{value!r} does not fit a {self.dtype.mtl}") from None
        except (TypeError, ValueError):
            raise InvalidArgument(f"{value!r} ({type(value).__name__}) is not a value for a {self.dtype.mtl}") from None


def _as_bool(value: Any) -> bytes:
    if value is True or value is False or isinstance(value, np.bool_) or operator.index(value) in (0, 1):
        return b"\1" if value else b"\0"
    raise OverflowError


def _as_bfloat(value: Any) -> bytes:
    return np.array(_real(value), ml_dtypes.bfloat16).tobytes()


def _real(value: Any) -> float:
    if isinstance(value, (str, bytes, complex)):
        raise TypeError
    return float(value)


@lru_cache(maxsize=64)
def _packer(dtype: DType) -> Callable[[Any], bytes]:
    if dtype is DType.BOOL:
        return _as_bool
    if dtype is DType.BF16:
        return _as_bfloat
    pack = struct.Struct("<" + dtype.format).pack
    if dtype.is_float:
        return lambda value: pack(_real(value))
    return lambda value: pack(operator.index(value))


@lru_cache(maxsize=256)
def scalar_type(code: int) -> ScalarType | None:
    """The scalar or vector type of an MTLDataType; None for structs, arrays and matrices."""
    for lanes in (1, 2, 3, 4):
        if (dtype := _BY_CODE.get(code - lanes + 1)) is not None:
            return ScalarType(dtype, lanes)
    return None
