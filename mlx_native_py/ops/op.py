"""The table of ops: formula, element types and `fn` functions of each, used by docs, tests and `fn`."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar, cast

from ..dtypes import FLOATS, DType
from ..errors import InvalidArgument, MlxError
from ..memory.buffer import MlxBuffer
from .attributed import attributed
from .recorded import direct, recorded
from .refusals import MISSING, described, not_given

__all__ = ["Count", "FLOATS", "Indices", "NoSuchName", "Op", "Output", "Outputs", "no_such_name", "op", "table"]

Output = MlxBuffer | None
"""Where a result goes; None for a new buffer."""
Outputs = Sequence[MlxBuffer] | None
"""Where several results go."""
Indices = MlxBuffer
"""Indices of rows, experts or tokens: u32, unless the op says otherwise."""
Count = MlxBuffer | int
"""A number, or a u32 buffer with one per sequence."""

F = TypeVar("F", bound=Callable[..., Any])
_TABLE: dict[str, Op] = {}


@dataclass(frozen=True, slots=True)
class Op:
    """An entry of the table of ops."""

    name: str
    family: str
    formula: str
    types: tuple[str, ...]
    """Supported element types or weight formats."""
    functions: tuple[str, ...]
    """The functions of `fn` that use it."""
    function: Callable[..., Any]

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


def op(
    formula: str,
    types: tuple[DType | str, ...] = FLOATS,
    *,
    fn: tuple[str, ...] | None = None,
    remembered: bool = True,
    flops: Callable[..., int] | None = None,
) -> Callable[[F], F]:
    """Decorator that registers a function as an op.

    `remembered=False` is for an op that depends on more than types, shapes and options, such as buffer addresses. `fn`
    names the functions of `mlx_native_py.fn` that use it (default: one of its own name). `flops` computes the
    floating-point operations of a call for profiles, from its result and its arguments by name.
    """

    def mark(function: F) -> F:
        name, family = function.__name__, function.__module__.rpartition(".")[2]
        if name in _TABLE:
            raise ValueError(f"there are two ops called {name}: in {_TABLE[name].family} and in {family}")
        functions = (name,) if fn is None else fn
        told = _naming(attributed(_checked(function), flops, functions))
        encoded = recorded(told) if remembered else direct(told)
        _TABLE[name] = Op(name, family, formula, tuple(map(str, types)), functions, encoded)
        return encoded

    return mark


def _checked(function: F) -> F:
    """The op, which refuses a call without some argument, and what is no buffer where a buffer belongs."""
    names = list(inspect.signature(function).parameters)[1:]
    buffers = frozenset(name for name in names if function.__annotations__[name] in ("MlxBuffer", "Indices"))

    @wraps(function)
    def call(enc: Any, *args: Any, **options: Any) -> Any:
        for name, value in (*zip(names, args, strict=False), *options.items()):
            if value is MISSING:
                raise not_given(function, name)
            if name in buffers and not isinstance(value, MlxBuffer):
                raise InvalidArgument(
                    f"{name} is {described(value)}, expected a buffer: device.buffer({name}), or call fn on arrays"
                )
        return function(enc, *args, **options)

    return cast("F", call)


def _naming(function: F) -> F:
    """Prefixes the messages of InvalidArgument with the op's name."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except InvalidArgument as error:
            error.args = (f"{function.__name__}: {error}",)
            raise

    return cast("F", call)


def table() -> Mapping[str, Op]:
    """All ops by name."""
    return MappingProxyType(_TABLE)


class NoSuchName(MlxError, AttributeError):
    """There is no op or function of that name."""


def no_such_name(kind: str, name: str, known: Iterable[str]) -> NoSuchName:
    """The error for a misspelt name, with close matches."""
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return NoSuchName(f"there is no {kind} {name!r}{hint}")
