"""How MSL's scalar, vector, packed and matrix types lie in a buffer, as numpy sees it."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SCALARS: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    "char": np.dtype(np.int8),
    "uchar": np.dtype(np.uint8),
    "short": np.dtype(np.int16),
    "ushort": np.dtype(np.uint16),
    "int": np.dtype(np.int32),
    "uint": np.dtype(np.uint32),
    "long": np.dtype(np.int64),
    "ulong": np.dtype(np.uint64),
    "half": np.dtype(np.float16),
    "bfloat": np.dtype(ml_dtypes.bfloat16),
    "float": np.dtype(np.float32),
}
INTEGERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
FLOATS = ("float", "half", "bfloat")

_NAME = re.compile(r"(?P<packed>packed_)?(?P<scalar>[a-z]+)(?P<first>[234])?(?:x(?P<second>[234]))?$")


@dataclass(frozen=True)
class Layout:
    """`columns` vectors of `rows` scalars, each padded to `pitch` scalars; 0 means a plain vector or scalar."""

    name: str
    dtype: np.dtype[Any]
    rows: int
    columns: int
    pitch: int

    @property
    def size(self) -> int:
        return self.dtype.itemsize * max(self.columns, 1) * max(self.pitch, 1)

    @property
    def alignment(self) -> int:
        return self.dtype.itemsize * (1 if self.name.startswith("packed_") else max(self.pitch, 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one value in numpy: columns first, as MSL indexes matrices."""
        return tuple(n for n in (self.columns, self.rows) if n)

    def decode(self, raw: bytes, count: int) -> Array:
        """`count` values out of a buffer's bytes."""
        flat = np.frombuffer(raw[: count * self.size], dtype=self.dtype)
        padded = flat.reshape(count, max(self.columns, 1), max(self.pitch, 1))
        return padded[:, :, : max(self.rows, 1)].reshape(count, *self.shape).copy()

    def encode(self, values: Array) -> Array:
        """The values as they lie in a buffer, padding zero."""
        count = len(values)
        padded = np.zeros((count, max(self.columns, 1), max(self.pitch, 1)), dtype=self.dtype)
        padded[:, :, : max(self.rows, 1)] = np.asarray(values).reshape(count, max(self.columns, 1), max(self.rows, 1))
        return padded.reshape(-1)


@functools.cache
def layout(name: str) -> Layout:
    """The layout of an MSL type by its name."""
    match = _NAME.match(name)
    if match is None or match["scalar"] not in SCALARS:
        raise ValueError(f"{name} is not a numeric MSL type")
    columns = int(match["first"]) if match["second"] else 0
    rows = int(match["second"] or match["first"] or 0)
    pitch = 4 if rows == 3 and not match["packed"] else rows
    return Layout(name, SCALARS[match["scalar"]], rows, columns, pitch)
