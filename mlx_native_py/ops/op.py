"""The table of ops: each one's formula, element types and functions of `fn`, told once, for docs, tests and `fn`."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar, cast

from ..dtypes import FLOATS, DType
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .attributed import attributed
from .recorded import recorded

__all__ = ["Count", "FLOATS", "Indices", "Op", "Output", "Outputs", "no_such_name", "op", "table"]

Output = MlxBuffer | None
"""Where a result goes; a new buffer where it is None."""
Outputs = Sequence[MlxBuffer] | None
"""Where several results go."""
Indices = MlxBuffer
"""Numbers of rows, of experts, of tokens: u32, or what the op says."""
Count = MlxBuffer | int
"""A number, or a u32 buffer with one per sequence."""

F = TypeVar("F", bound=Callable[..., Any])
_TABLE: dict[str, Op] = {}


@dataclass(frozen=True, slots=True)
class Op:
    """An op as the table of ops shows it."""

    name: str
    family: str
    formula: str
    types: tuple[str, ...]
    """The element types, or weight formats, that it has kernels for."""
    functions: tuple[str, ...]
    """The functions of `fn` that encode it."""
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
    """Makes a function an op, with a row in the table.

    `remembered=False` is for an op that looks at more than types, shapes and options, such as where its buffers lie.
    `fn` names the functions of `mlx_native_py.fn` that encode it: the one of its own name, unless told otherwise.
    `flops` tells profiles the floating-point operations of a call, from its result and its arguments by name.
    """

    def mark(function: F) -> F:
        name, family = function.__name__, function.__module__.rpartition(".")[2]
        if name in _TABLE:
            raise ValueError(f"there are two ops called {name}: in {_TABLE[name].family} and in {family}")
        told = _naming(attributed(_checked(function), flops))
        encoded = recorded(told) if remembered else told
        _TABLE[name] = Op(name, family, formula, tuple(map(str, types)), (name,) if fn is None else fn, encoded)
        return encoded

    return mark


def _checked(function: F) -> F:
    """The op, which refuses what is no buffer where a buffer belongs."""
    names = list(inspect.signature(function).parameters)[1:]
    buffers = frozenset(name for name in names if function.__annotations__[name] in ("MlxBuffer", "Indices"))

    @wraps(function)
    def call(enc: Any, *args: Any, **options: Any) -> Any:
        for name, value in (*zip(names, args, strict=False), *options.items()):
            if name in buffers and not isinstance(value, MlxBuffer):
                raise InvalidArgument(
                    f"{name} is {_described(value)}, expected a buffer: device.buffer({name}), or call fn on arrays"
                )
        return function(enc, *args, **options)

    return cast("F", call)


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else f"an array of {value.dtype}{list(shape)}"


def _naming(function: F) -> F:
    """The op, whose name comes first in the message where it refuses an argument."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except InvalidArgument as error:
            error.args = (f"{function.__name__}: {error}",)
            raise

    return cast("F", call)


def table() -> Mapping[str, Op]:
    """Every op by its name."""
    return MappingProxyType(_TABLE)


def no_such_name(kind: str, name: str, known: Iterable[str]) -> AttributeError:
    """What a misspelt name is answered with: the names that come close."""
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return AttributeError(f"there is no {kind} {name!r}{hint}")
