"""Functions derived from ops of the same name; `derived.pyi` has their signatures for type checkers."""

from __future__ import annotations

from typing import Any

from ..ops import table
from . import written
from .derive import derive

_OPS = {each.name: each for each in table().values() if each.name in each.functions and not hasattr(written, each.name)}
__all__: list[str] = sorted(_OPS)


def __getattr__(name: str) -> Any:
    if name not in _OPS:
        raise AttributeError(name)
    return derive(_OPS[name])
