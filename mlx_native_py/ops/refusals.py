"""What an op says to a call that does not fit its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import InvalidArgument, SignatureError
from ..memory.buffer import MlxBuffer

__all__ = ["MISSING", "described", "no_encoder", "not_given", "the_call", "unexpected"]


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING: Any = _Missing()
"""The value of an argument that was not given."""


def described(value: Any) -> str:
    """A value in a message; of an array, type and shape."""
    if isinstance(value, MlxBuffer):
        return f"a buffer of {value.dtype}{list(value.shape)}"
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else f"an array of {value.dtype}{list(shape)}"


def no_encoder(given: Any, functions: Sequence[str]) -> InvalidArgument:
    """Something else was given where the encoder belongs; `functions` of `fn` need none."""
    without = f"; without one, call {' or '.join(f'fn.{name}' for name in functions)}" if functions else ""
    return InvalidArgument(
        f"the first argument is {described(given)}, expected device.command_encoder() or a capture's encoder{without}"
    )


def not_given(function: Callable[..., Any], name: str) -> SignatureError:
    """A required argument is missing."""
    return SignatureError(f"{name} is missing; {_call_of(function)}")


def unexpected(function: Callable[..., Any], extra: Sequence[Any], unknown: Mapping[str, Any]) -> SignatureError:
    """There are too many arguments, or some that the op does not have."""
    if unknown:
        return SignatureError(
            f"{function.__name__}: there is no argument {next(iter(unknown))!r}; {_call_of(function)}"
        )
    return SignatureError(f"{function.__name__}: {len(extra)} too many arguments; {_call_of(function)}")


def the_call(name: str, signature: inspect.Signature) -> str:
    """How a call looks, without types."""
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return f"the call is {name}{inspect.Signature(bare)}"


def _call_of(function: Callable[..., Any]) -> str:
    return the_call(function.__name__, inspect.signature(function))
