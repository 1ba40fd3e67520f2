"""Values of function constants, copied when set, by index or by name."""

from __future__ import annotations

import ctypes
from typing import Any

from ..data_types import BY_CODE
from ..misuse import InvalidValue
from ..program import Constant, KernelSignature
from ..values import flat_bytes, natural, span, text
from .base import Descriptor


def _read(value: Any, length: int) -> bytes:
    """`length` bytes at an address, or of a buffer."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value <= 0:
            raise InvalidValue(f"address of a constant value is {value}")
        return ctypes.string_at(value, length)
    return bytes(flat_bytes(value, length, "constant value"))


class MTLFunctionConstantValues(Descriptor):
    """Values of function constants, with their types."""

    def __init__(self) -> None:
        self.given: dict[int | str, tuple[int, bytes]] = {}

    def setConstantValue_type_atIndex_(self, value: Any, data_type: int, index: int) -> None:
        kind = self._kind(data_type)
        self.given[natural(index, "index")] = kind, _read(value, BY_CODE[kind].size)

    def setConstantValue_type_withName_(self, value: Any, data_type: int, name: str) -> None:
        kind = self._kind(data_type)
        self.given[text(name, "name")] = kind, _read(value, BY_CODE[kind].size)

    def setConstantValues_type_withRange_(self, values: Any, data_type: int, indices: tuple[int, int]) -> None:
        kind, run = self._kind(data_type), span(indices, "range")
        step = BY_CODE[kind].size
        data = _read(values, step * run.length)
        for place in range(run.length):
            self.given[run.location + place] = kind, data[place * step : (place + 1) * step]

    def reset(self) -> None:
        self.given.clear()

    def copy(self) -> MTLFunctionConstantValues:
        other = MTLFunctionConstantValues()
        other.given = dict(self.given)
        return other

    @staticmethod
    def _kind(value: Any) -> int:
        kind = natural(value, "type")
        if kind not in BY_CODE:
            raise InvalidValue(f"type {kind} is not a scalar or vector MTLDataType")
        return kind

    def resolve(self, kernel: KernelSignature) -> dict[int, bytes] | str:
        """The values by index for one kernel, or what is wrong with them."""
        values: dict[int, bytes] = {}
        for constant in kernel.constants:
            given = self.given.get(constant.index, self.given.get(constant.name))
            if given is None and constant.required:
                return (
                    f"Function {kernel.name}: function constant '{constant.name}' (index {constant.index}) has no value"
                )
            if given is not None and given[0] != constant.data_type:
                return _mismatch(kernel, constant, given[0])
            if given is not None:
                values[constant.index] = given[1]
        return values


def _mismatch(kernel: KernelSignature, constant: Constant, given: int) -> str:
    return (
        f"Function {kernel.name}: function constant '{constant.name}' (index {constant.index}) is declared "
        f"as {constant.type_name}, but its value was set as {BY_CODE[given].name}"
    )
