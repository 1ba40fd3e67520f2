"""Kernel arguments by name: `lib.axpy(y=y, x=x, a=2.0)`, `enc.dispatch(lib.axpy, y=y, x=x, a=2.0, threads=8)`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..errors import InvalidArgument, SignatureError
from ..pipelines.pipeline import Pipeline
from .dispatch import OPTIONS
from .textures import arranged

__all__ = ["by_slot", "take_named"]

_LAUNCH_WORDS = {
    "grid": "threads= counts threads, threadgroups= counts groups",
    "global_size": "threads= counts threads",
    "local_size": "group= is the size of a threadgroup",
    "threadgroup": "group= is the size of a threadgroup",
    "group_size": "group= is the size of a threadgroup",
    "block": "group= is the size of a threadgroup",
    "stream": "encoder= takes a CommandEncoder; the device is that of the buffers",
}


def take_named(pipeline: Pipeline, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """Moves kernel arguments out of `options`, and returns all arguments by slot.

    Raises SignatureError for a name that is neither an option nor an argument.
    """
    named = {name: options.pop(name) for name in [name for name in options if name not in OPTIONS]}
    if not named:
        return args
    known = {binding.name for binding in (*pipeline.buffers, *pipeline.textures) if binding is not None}
    if strange := [name for name in named if name not in known]:
        raise SignatureError(
            f"dispatch() has no option {strange[0]!r}; there are {', '.join(OPTIONS)}, and the arguments of "
            f"kernel {pipeline.label!r} by name: {_advice(strange[0], sorted(known))}"
        )
    return by_slot(pipeline, args, named)


def by_slot(pipeline: Pipeline, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """All arguments in slot order; positional ones come first."""
    if pipeline.textures:
        return arranged(pipeline, args, named)
    names = tuple(None if binding is None else binding.name for binding in pipeline.buffers)
    order = _order(pipeline.label, names, len(args), tuple(named))
    return (*args, *(None if name is None else named[name] for name in order))


@lru_cache(maxsize=1024)
def _order(
    label: str, names: tuple[str | None, ...], positional: int, given: tuple[str, ...]
) -> tuple[str | None, ...]:
    """The names of the slots after the positional arguments; None for unused slots."""
    kernel = f"kernel {label!r}"
    for name in given:
        if name not in names:
            raise InvalidArgument(f"{kernel} has no argument {name!r}; {_advice(name, [n for n in names if n])}")
        if names.index(name) < positional:
            raise InvalidArgument(f"{kernel}: {name!r} is given twice: by its place and by its name")
    if missing := [name for name in names[positional:] if name is not None and name not in given]:
        raise InvalidArgument(f"{kernel} lacks {', '.join(map(repr, missing))}")
    return names[positional:]


def _advice(name: str, names: Sequence[str]) -> str:
    if name in _LAUNCH_WORDS:
        return _LAUNCH_WORDS[name]
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(names) or 'none'}"
