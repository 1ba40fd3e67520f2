"""What makes a function an op: its formula and its types, told once, for the docs and the tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from ..dtypes import DType

__all__ = ["FLOATS", "Op", "op", "table"]

FLOATS = (DType.F32, DType.F16, DType.BF16)

F = TypeVar("F", bound=Callable[..., Any])
_TABLE: dict[str, Op] = {}


@dataclass(frozen=True, slots=True)
class Op:
    """An op as the table of ops shows it.

    >>> print(ops.table()["add"].family, ops.table()["add"].formula)
    elementwise a + b
    """

    name: str
    family: str
    formula: str
    types: tuple[str, ...]
    """The element types, or weight formats, that it has kernels for."""
    function: Callable[..., Any]

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


def op(formula: str, types: tuple[DType | str, ...] = FLOATS) -> Callable[[F], F]:
    """Marks a function as an op; calls of it cost nothing more."""

    def mark(function: F) -> F:
        name, family = function.__name__, function.__module__.rpartition(".")[2]
        if name in _TABLE:
            raise ValueError(f"there are two ops called {name}: in {_TABLE[name].family} and in {family}")
        _TABLE[name] = Op(name, family, formula, tuple(map(str, types)), function)
        return function

    return mark


def table() -> Mapping[str, Op]:
    """Every op by its name."""
    return MappingProxyType(_TABLE)
