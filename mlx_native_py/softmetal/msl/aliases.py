"""Type aliases by `using` and `typedef`."""

from __future__ import annotations

from ..data_types import DataType, data_type
from .unit import Unit


def input_type(unit: Unit, spelling: str) -> DataType | None:
    """The scalar or vector type that a spelling stands for, by itself or through aliases."""
    if kind := data_type(spelling):
        return kind
    known = unit.aliases
    for _ in known:
        spelling = known.get(spelling.rpartition("::")[2], "")
        if kind := data_type(spelling):
            return kind
    return None
