"""Functions that show how they are called to callers whose arguments do not fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from ..errors import MlxError, SignatureError
from ..ops.refusals import the_call

__all__ = ["signed"]


def signed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with Python's TypeError for a wrong call made a SignatureError."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TypeError as problem:
            if isinstance(problem, MlxError):
                raise
            expected = signature(function)
            try:
                expected.bind(*args, **options)
            except TypeError as mismatch:
                name = function.__name__
                raise SignatureError(f"{name}() {mismatch}; {the_call(name, expected)}") from None
            raise

    return call
