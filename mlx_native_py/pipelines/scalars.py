"""MSL's scalar and vector types by MTLDataType, and Python values packed into their bytes."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import InvalidArgument

__all__ = ["ScalarType", "scalar_type"]

# The MTLDataType of the scalar; vectors of 2, 3 and 4 have the next three numbers.
_SCALARS = {
    3: ("float", "f"),
    16: ("half", "e"),
    29: ("int", "i"),
    33: ("uint", "I"),
    37: ("short", "h"),
    41: ("ushort", "H"),
    45: ("char", "b"),
    49: ("uchar", "B"),
    53: ("bool", "?"),
    81: ("long", "q"),
    85: ("ulong", "Q"),
    121: ("bfloat", "bf"),
}
_FLOATS = frozenset({"float", "half", "bfloat"})


@dataclass(frozen=True)
class ScalarType:
    """A scalar (`lanes` 1) or vector type of MSL.

    >>> scalar_type(35).name, scalar_type(35).pack((1, 2, 3), 16).hex()
    ('uint3', '01000000020000000300000000000000')
    """

    code: int
    scalar: str
    lanes: int
    format: str

    @property
    def name(self) -> str:
        """Its name in MSL."""
        return self.scalar if self.lanes == 1 else f"{self.scalar}{self.lanes}"

    @property
    def lane_bytes(self) -> int:
        return 2 if self.scalar == "bfloat" else struct.calcsize(self.format)

    def pack(self, value: Any, size: int) -> bytes:
        """`value` as this type, filled up to `size` bytes (a vector of three takes the room of four)."""
        if self.lanes == 1:
            packed = self._lane(value)
        else:
            values = self._components(value)
            packed = b"".join(map(self._lane, values))
        return packed if len(packed) == size else packed.ljust(size, b"\0")

    def unpack(self, data: bytes) -> Any:
        """The number, or the tuple of numbers, in `data`.

        >>> scalar_type(33).unpack(b"\\7\\0\\0\\0"), scalar_type(4).unpack(b"\\0" * 8)
        (7, (0.0, 0.0))
        """
        kind = ml_dtypes.bfloat16 if self.scalar == "bfloat" else np.dtype(f"<{self.format}")
        values = tuple(np.frombuffer(data, kind, self.lanes).tolist())
        return values[0] if self.lanes == 1 else values

    def quick(self, size: int) -> Callable[..., bytes] | None:
        """Packs plain ints and floats (one per lane) in one call, or raises `struct.error`; None where that cannot be.

        >>> scalar_type(33).quick(4)(7).hex()
        '07000000'
        """
        if self.scalar in ("bool", "bfloat"):
            return None
        fill = size - self.lanes * self.lane_bytes
        return struct.Struct(f"<{self.lanes}{self.format}{fill}x").pack if fill >= 0 else None

    def _components(self, value: Any) -> Sequence[Any]:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or len(value) != self.lanes:
            raise InvalidArgument(f"{value!r} is not a {self.name}: expected {self.lanes} numbers")
        return value  # type: ignore[no-any-return]

    def _lane(self, value: Any) -> bytes:
        try:
            return _packer(self.scalar, self.format)(value)
        except (struct.error, OverflowError):
            raise InvalidArgument(f"{value!r} does not fit a {self.scalar}") from None
        except (TypeError, ValueError):
            raise InvalidArgument(f"{value!r} ({type(value).__name__}) is not a value for a {self.scalar}") from None


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
def _packer(scalar: str, form: str) -> Callable[[Any], bytes]:
    if scalar == "bool":
        return _as_bool
    if scalar == "bfloat":
        return _as_bfloat
    pack = struct.Struct("<" + form).pack
    if scalar in _FLOATS:
        return lambda value: pack(_real(value))
    return lambda value: pack(operator.index(value))


@lru_cache(maxsize=256)
def scalar_type(code: int) -> ScalarType | None:
    """The scalar or vector type with this MTLDataType; None for structs, arrays, matrices and the like."""
    for lanes in (1, 2, 3, 4):
        if (found := _SCALARS.get(code - lanes + 1)) is not None:
            return ScalarType(code, found[0], lanes, found[1])
    return None
