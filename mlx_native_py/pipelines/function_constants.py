"""Function constants: values converted to the types that a kernel declares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidArgument
from .scalars import ScalarType, scalar_type

__all__ = ["ConstantValue", "Constants", "resolve_constants"]

Constants = Mapping[int | str, Any]
"""Values by the index or name of their constants."""


@dataclass(frozen=True)
class ConstantValue:
    """One function constant as Metal takes it; `label` is its part of a pipeline's label."""

    index: int
    code: int
    data: bytes
    label: str


def resolve_constants(kernel: str, function: Any, source: str, given: Constants) -> tuple[ConstantValue, ...]:
    """The values by index in their declared types; raises on unknown, duplicate and missing ones."""
    declared = [(str(c.name()), int(c.index()), int(c.type()), bool(c.required())) for c in _constants(function)]
    places = {index: (name, code) for name, index, code, _ in declared}
    indices = {name: index for name, index, _, _ in declared}
    values: dict[int, ConstantValue] = {}
    for key, value in given.items():
        index = indices.get(key) if isinstance(key, str) else key
        if index is None or index not in places:
            _refuse_unknown(kernel, source, key, places)
            continue
        if index in values:
            raise InvalidArgument(f"kernel {kernel!r}: function constant {places[index][0]!r} is given twice")
        values[index] = _value(kernel, *places[index], index, value)
    missing = [f"{name!r} (index {index})" for name, index, _, required in declared if required and index not in values]
    if missing:
        raise InvalidArgument(f"kernel {kernel!r} needs values for function constants {', '.join(missing)}")
    return tuple(values[index] for index in sorted(values))


def _constants(function: Any) -> list[Any]:
    return list((function.functionConstantsDictionary() or {}).values())


def _refuse_unknown(kernel: str, source: str, key: int | str, places: Mapping[int, tuple[str, int]]) -> None:
    """Raises on an unknown constant, unless another kernel of the source declares it."""
    if isinstance(key, str):
        pattern = rf"\b{re.escape(key)}\s*\[\[\s*function_constant\b"
    else:
        pattern = rf"\bfunction_constant\s*\(\s*{key}\s*\)"
    if re.search(pattern, source):
        return
    known = ", ".join(f"{name!r} (index {index})" for index, (name, _) in sorted(places.items())) or "none"
    raise InvalidArgument(f"kernel {kernel!r} has no function constant {key!r}; it has {known}")


def _value(kernel: str, name: str, code: int, index: int, value: Any) -> ConstantValue:
    kind = scalar_type(code)
    if kind is None:
        raise InvalidArgument(
            f"kernel {kernel!r}: function constant {name!r} has a type that cannot be set (type {code})"
        )
    size = kind.dtype.size * (4 if kind.lanes == 3 else kind.lanes)
    try:
        data = kind.pack(value, size)
    except InvalidArgument as problem:
        raise InvalidArgument(f"kernel {kernel!r}: function constant {name!r} (index {index}): {problem}") from None
    return ConstantValue(index, code, data, f"|{index}:{_letter(kind)}{_text(value)}")


def _letter(kind: ScalarType) -> str:
    letter = {"bool": "b", "float": "f", "half": "h", "bfloat": "bf"}.get(kind.dtype.mtl)
    return letter or ("u" if kind.dtype.mtl.startswith("u") else "i")


def _text(value: Any) -> str:
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return str(int(value))
    return str(value).replace(" ", "")
