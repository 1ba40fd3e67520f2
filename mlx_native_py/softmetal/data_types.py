"""MTLDataType codes of MSL's scalar and vector types, and their values as source text."""

from __future__ import annotations

import struct
from typing import NamedTuple

# The MTLDataType of each scalar (vectors of 2, 3 and 4 have the next three numbers), and the integer of its size.
_SCALARS = {
    "float": (3, "I"),
    "half": (16, "H"),
    "int": (29, "i"),
    "uint": (33, "I"),
    "short": (37, "h"),
    "ushort": (41, "H"),
    "char": (45, "b"),
    "uchar": (49, "B"),
    "bool": (53, "?"),
    "long": (81, "q"),
    "ulong": (85, "Q"),
    "bfloat": (121, "H"),
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


class DataType(NamedTuple):
    """A scalar or vector type."""

    scalar: str
    width: int

    @property
    def code(self) -> int:
        """Its MTLDataType."""
        return _SCALARS[self.scalar][0] + self.width - 1

    @property
    def size(self) -> int:
        """Its bytes; a vector of three takes the room of four."""
        return struct.calcsize(_SCALARS[self.scalar][1]) * (4 if self.width == 3 else self.width)

    @property
    def name(self) -> str:
        """Its name in MSL."""
        return self.scalar if self.width == 1 else f"{self.scalar}{self.width}"

    @property
    def spelling(self) -> str:
        """Its name in C++."""
        return self.scalar if self.width == 1 else f"metal::vec<{self.scalar}, {self.width}>"

    def number(self, data: bytes) -> int | float | bool:
        """The value in `data`, its first component if it is a vector."""
        form = {"float": "f", "half": "e"}.get(self.scalar, _SCALARS[self.scalar][1])
        value: int | float | bool = struct.unpack_from("<" + form, data)[0]
        return struct.unpack("<f", bytes(2) + data[:2])[0] if self.scalar == "bfloat" else value

    def literal(self, data: bytes) -> str:
        """Source text of the value in `data`."""
        step = struct.calcsize(_SCALARS[self.scalar][1])
        values = [_scalar_literal(self.scalar, data[i * step : (i + 1) * step]) for i in range(self.width)]
        return values[0] if self.width == 1 else f"{self.spelling}({', '.join(values)})"


def _scalar_literal(scalar: str, data: bytes) -> str:
    value = struct.unpack("<" + _SCALARS[scalar][1], data)[0]
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
    if name in _SCALARS:
        return DataType(name, 1)
    if name[-1:] in ("2", "3", "4") and name[:-1] in _SCALARS:
        return DataType(name[:-1], int(name[-1]))
    if name.startswith("vec<") and name.endswith(">"):
        scalar, _, width = name[4:-1].replace(" ", "").partition(",")
        scalar = _ALIASES.get(scalar, scalar)
        if scalar in _SCALARS and width in ("2", "3", "4"):
            return DataType(scalar, int(width))
    return None


BY_CODE = {each.code: each for each in (DataType(scalar, width) for scalar in _SCALARS for width in (1, 2, 3, 4))}
"""Every scalar and vector type by its MTLDataType."""
