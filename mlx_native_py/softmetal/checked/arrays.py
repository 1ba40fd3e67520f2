"""Array indices out of range, and functions without a result, as described by the compiler that inserted the check."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass

from ..program import Diagnostic

Locate = Callable[[int, int], Diagnostic | None]

_SPACES = re.compile(r"__(?:local|private|generic|global|constant) ")
_VECTOR = re.compile(r"metal::vec<(\w+), (\d)>")
_VARIABLE = re.compile(r"'(?:__local )?(\w+)_soft_type'")
_NAME = re.compile(r"operator(?:\(\)|[^\w(]+)|[A-Za-z_]\w*")
_KERNEL = "kernel.clcpp"  # the one file whose lines are the user's
_COORDINATE = 0xFFFE  # not the compiler's: include/soft_texture_types.h reports a texture's coordinate


class _ArrayType(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint16), ("info", ctypes.c_uint16)]  # its name follows


class _Location(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("line", ctypes.c_uint32), ("column", ctypes.c_uint32)]

    def source(self, locate: Locate | None) -> Diagnostic | None:
        mine = (self.file or b"").decode(errors="replace").endswith(_KERNEL)
        return locate(self.line, self.column) if mine and locate is not None else None


class _ArrayAccess(ctypes.Structure):
    _fields_ = [("location", _Location), ("array", ctypes.c_void_p), ("index", ctypes.c_void_p)]


@dataclass(frozen=True)
class OutsideArray:
    """An index, the array's type, the threadgroup variable's name if it is one, and the location.

    For a texture there is no type: the name is that of the coordinate, and the index has its limit in the upper half.
    """

    index: int
    type_name: str
    variable: str
    source: Diagnostic | None

    def __str__(self) -> str:
        if not self.type_name:
            value, end = self.index & 0xFFFFFFFF, self.index >> 32
            return f"{self.variable} is {value}, expected less than {end}"
        name = f" {self.variable!r}" if self.variable else ""
        return f"index {self.index} of array{name} ({self.type_name})"


def outside_array(address: int, index: int, locate: Locate | None) -> OutsideArray:
    """Reads the description at an address inside a kernel that is still loaded."""
    access = _ArrayAccess.from_address(address)
    named = ctypes.string_at(access.array + ctypes.sizeof(_ArrayType)).decode(errors="replace")
    kind = _ArrayType.from_address(access.index)
    if kind.kind == _COORDINATE:
        return OutsideArray(index, "", named, None)
    signed = kind.kind == 0 and kind.info & 1
    spelled = _SPACES.sub("", named.split("'")[-2])
    variable = _VARIABLE.match(named)
    return OutsideArray(
        index - (1 << 64) if signed and index >> 63 else index,
        _VECTOR.sub(r"\1\2", spelled),
        variable[1] if variable else "",
        access.location.source(locate),
    )


def function_at(address: int, locate: Locate | None) -> tuple[str, Diagnostic | None]:
    """The name and the place of the function whose description is at an address; lambdas have no name."""
    source = _Location.from_address(address).source(locate)
    name = _NAME.match(source.source_line, source.column - 1) if source else None
    return name[0] if name else "", source
