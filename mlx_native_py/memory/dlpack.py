"""DLPack exchange through numpy, extended by bfloat16, which numpy lacks."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..dtypes import DType
from ..errors import InvalidArgument

__all__ = ["CPU", "from_capsule", "to_capsule"]

CPU = (1, 0)
Array = np.ndarray[Any, np.dtype[Any]]
_UINT, _BFLOAT = 1, 4


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_api = ctypes.pythonapi
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))


def _dtype(capsule: Any) -> _DataType:
    """The element type inside a capsule, which can be changed in place."""
    name = _name(capsule)
    address = _pointer(capsule, name)
    if name == b"dltensor_versioned":
        address += _Versioned.tensor.offset
    return _DataType.from_address(address + _Tensor.dtype.offset)


def to_capsule(array: Array, **asked: Any) -> Any:
    """The DLPack capsule of an array; `asked` are the keywords of `__dlpack__`."""
    keywords = {key: value for key, value in asked.items() if value is not None}
    if array.dtype != DType.BF16.numpy:
        return array.__dlpack__(**keywords)
    capsule = array.view(np.uint16).__dlpack__(**keywords)
    _dtype(capsule).code = _BFLOAT
    return capsule


class _Patched:
    """A producer whose bfloat16 is presented to numpy as uint16."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.is_bfloat = False

    def __dlpack_device__(self) -> Any:
        return self._source.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        try:
            capsule = self._source.__dlpack__(**keywords)
        except TypeError:  # a producer from before the keywords
            capsule = self._source.__dlpack__()
        dtype = _dtype(capsule)
        if (dtype.code, dtype.bits, dtype.lanes) == (_BFLOAT, 16, 1):
            self.is_bfloat = True
            dtype.code = _UINT
        return capsule


def from_capsule(source: Any) -> Array:
    """A numpy array over CPU memory shared by DLPack, without a copy."""
    device = tuple(source.__dlpack_device__())
    if device[0] != CPU[0]:
        raise InvalidArgument(
            f"this {type(source).__name__} is on DLPack device {device}; only CPU memory, {CPU}, can be taken"
        )
    patched = _Patched(source)
    try:
        array = np.from_dlpack(patched)
    except (BufferError, RuntimeError, TypeError) as reason:
        raise InvalidArgument(f"this {type(source).__name__} cannot be taken by DLPack: {reason}") from reason
    return array.view(DType.BF16.numpy) if patched.is_bfloat else array
