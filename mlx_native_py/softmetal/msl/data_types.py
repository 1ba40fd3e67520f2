"""MTLDataType codes of MSL's scalar and vector types, and their values as source text."""

from __future__ import annotations

import struct
from typing import NamedTuple

_CODES = {
    "float": 3,
    "half": 16,
    "int": 29,
    "uint": 33,
    "short": 37,
    "ushort": 41,
    "char": 45,
    "uchar": 49,
    "bool": 53,
    "long": 81,
    "ulong": 85,
    "bfloat": 121,
}
_ALIASES = {
    "unsigned": "uint",
    "unsigned int": "uint",
    "unsigned short": "ushort",
    "unsigned char": "uchar",
    "unsigned long": "ulong",
    "signed char": "char",
    "int8_t": "char",
    "uint8_t": "uchar",
    "int16_t": "short",
    "uint16_t": "ushort",
    "int32_t": "int",
    "uint32_t": "uint",
    "int64_t": "long",
    "uint64_t": "ulong",
    "size_t": "ulong",
    "ptrdiff_t": "long",
}
_FORMATS = {
    "float": "I",
    "half": "H",
    "int": "i",
    "uint": "I",
    "short": "h",
    "ushort": "H",
    "char": "b",
    "uchar": "B",
    "bool": "?",
    "long": "q",
    "ulong": "Q",
    "bfloat": "H",
}


class DataType(NamedTuple):
    """A scalar or vector type."""

    scalar: str
    width: int

    @property
    def code(self) -> int:
        """Its MTLDataType."""
        return _CODES[self.scalar] + self.width - 1

    @property
    def size(self) -> int:
        """Its bytes; a vector of three takes the room of four."""
        return struct.calcsize(_FORMATS[self.scalar]) * (4 if self.width == 3 else self.width)

    @property
    def spelling(self) -> str:
        """Its name in C++."""
        return self.scalar if self.width == 1 else f"metal::vec<{self.scalar}, {self.width}>"

    def number(self, data: bytes) -> int | float | bool:
        """The value in `data`, its first component if it is a vector."""
        form = {"float": "f", "half": "e"}.get(self.scalar, _FORMATS[self.scalar])
        value: int | float | bool = struct.unpack_from("<" + form, data)[0]
        return struct.unpack("<f", bytes(2) + data[:2])[0] if self.scalar == "bfloat" else value

    def literal(self, data: bytes) -> str:
        """Source text of the value in `data`."""
        step = struct.calcsize(_FORMATS[self.scalar])
        values = [_scalar_literal(self.scalar, data[i * step : (i + 1) * step]) for i in range(self.width)]
        return values[0] if self.width == 1 else f"{self.spelling}({', '.join(values)})"


def _scalar_literal(scalar: str, data: bytes) -> str:
    value = struct.unpack("<" + _FORMATS[scalar], data)[0]
    if scalar == "bool":
        return "true" if value else "false"
    if scalar == "float":
        return f"__builtin_bit_cast(float, {value}u)"
    if scalar in ("half", "bfloat"):
        return f"__builtin_bit_cast({scalar}, (unsigned short){value})"
    if scalar == "ulong":
        return f"{value}ul"
    # The most negative number has no literal of its own.
    return f"({scalar})({value + 1}l - 1)" if value < 0 else f"({scalar}){value}"


def data_type(spelling: str) -> DataType | None:
    """The type that a spelling names, or None if it is no scalar or vector."""
    name = spelling.removeprefix("metal::")
    name = _ALIASES.get(name, name)
    if name in _CODES:
        return DataType(name, 1)
    if name[-1:] in ("2", "3", "4") and name[:-1] in _CODES:
        return DataType(name[:-1], int(name[-1]))
    if name.startswith("vec<") and name.endswith(">"):
        scalar, _, width = name[4:-1].replace(" ", "").partition(",")
        scalar = _ALIASES.get(scalar, scalar)
        if scalar in _CODES and width in ("2", "3", "4"):
            return DataType(scalar, int(width))
    return None
