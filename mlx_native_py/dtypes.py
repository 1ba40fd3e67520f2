"""Element types: their names here, in numpy, MSL, Metal and `struct`."""

from __future__ import annotations

from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np

from .errors import InvalidArgument

__all__ = ["DType", "DTypeLike", "FLOATS", "INTEGERS", "narrowed"]


class DType(Enum):
    """The element type of a buffer.

    >>> str(DType.BF16), DType.BF16.size, DType.BF16.mtl, DType.BF16.numpy
    ('bf16', 2, 'bfloat', dtype(bfloat16))
    >>> DType.of("float16"), DType.of(np.int32) is DType.I32
    (DType.F16, True)
    """

    F32 = "f32", np.float32, "float", 3, "f"
    F16 = "f16", np.float16, "half", 16, "e"
    BF16 = "bf16", ml_dtypes.bfloat16, "bfloat", 121, ""
    U8 = "u8", np.uint8, "uchar", 49, "B"
    U16 = "u16", np.uint16, "ushort", 41, "H"
    U32 = "u32", np.uint32, "uint", 33, "I"
    U64 = "u64", np.uint64, "ulong", 85, "Q"
    I8 = "i8", np.int8, "char", 45, "b"
    I16 = "i16", np.int16, "short", 37, "h"
    I32 = "i32", np.int32, "int", 29, "i"
    I64 = "i64", np.int64, "long", 81, "q"
    BOOL = "bool", np.bool_, "bool", 53, "?"

    name_: str
    """The short name, which `str()` returns."""
    size: int
    """Bytes per element."""
    numpy: np.dtype[Any]
    mtl: str
    """The name in MSL."""
    code: int
    """The MTLDataType; vectors of 2, 3 and 4 have the next three numbers."""
    format: str
    """The format character in the module `struct`; empty if there is none."""

    def __new__(cls, name: str, scalar: type, mtl: str, code: int, form: str) -> DType:
        member = object.__new__(cls)
        member._value_ = name
        member.name_ = name
        member.numpy = np.dtype(scalar)
        member.size = member.numpy.itemsize
        member.mtl = mtl
        member.code = code
        member.format = form
        return member

    # Members are singletons and keys of many tables, so they hash by identity.
    __hash__ = object.__hash__

    @classmethod
    def _missing_(cls, value: object) -> DType:
        return cls.of(value)

    @classmethod
    def of(cls, given: Any) -> DType:
        """The member for a short name, a numpy name, a numpy type or dtype, or a member."""
        if isinstance(given, cls):
            return given
        known = _BY_NAME.get(given) if isinstance(given, str) else _BY_TYPE.get(given) if type(given) is type else None
        if known is None and given is not None:
            try:
                dtype = np.dtype(given)
            except TypeError:
                raise InvalidArgument(f"{given!r} is not an element type; there are: {_KNOWN}") from None
            known = _BY_NUMPY.get(dtype) if dtype.isnative else None
        if known is None:
            raise InvalidArgument(f"{given!r} is not an element type of buffers; there are: {_KNOWN}")
        return known

    @property
    def is_float(self) -> bool:
        return self in FLOATS

    def __str__(self) -> str:
        return self.name_

    def __repr__(self) -> str:
        return f"DType.{self.name}"


def narrowed(array: np.ndarray[Any, np.dtype[Any]], python: bool = False) -> np.ndarray[Any, np.dtype[Any]]:
    """Converts float64, which Metal lacks, to float32, as MLX does; other types are unchanged.

    This is the only rule for float64, used wherever an array is read: `device.buffer`, `fn`, kernel inputs,
    `fast.metal_kernel`. An array that a kernel writes is never converted; it must have the kernel's type. With
    `python`, the numbers are Python's own, and integers become int32 if they fit.

    >>> narrowed(np.asarray([1, 2]), python=True).dtype, narrowed(np.asarray([1, 2**40]), python=True).dtype
    (dtype('int32'), dtype('int64'))
    """
    if python and array.dtype == np.int64 and bool(((array >= -(2**31)) & (array < 2**31)).all()):
        return array.astype(np.int32)
    if array.dtype != np.float64:
        return array
    with np.errstate(all="ignore"):
        return array.astype(np.float32)


DTypeLike = DType | str | type | np.dtype[Any]
"""What `DType.of` takes."""
FLOATS = (DType.F32, DType.F16, DType.BF16)
INTEGERS = tuple(each for each in DType if each.numpy.kind in "iu")
_BY_NUMPY = {member.numpy: member for member in DType}
_BY_TYPE = {member.numpy.type: member for member in DType}
_BY_NAME = {member.name_: member for member in DType} | {"bfloat16": DType.BF16}
_KNOWN = ", ".join(member.name_ for member in DType)
