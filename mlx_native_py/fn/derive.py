"""Derives a function on arrays from an op on buffers: its signature without encoder and output buffers."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any

from ..device import MlxDevice
from ..dtypes import DType
from ..errors import SignatureError
from ..ops import Op
from ..ops.refusals import the_call
from .call import FunctionCall, call

__all__ = ["derive", "derived_signature"]

Take = Callable[[FunctionCall, Any, str], Any]
"""Makes what the function was given into what the op takes."""

_BUFFER: tuple[str, Take] = ("Array", FunctionCall.put)
_INTEGERS: tuple[str, Take] = ("Array", FunctionCall.put_integers)
_COUNT: tuple[str, Take] = ("Array | int", FunctionCall.put_count)
_DTYPE: tuple[str, Take] = ("DTypeLike", lambda run, given, name: DType.of(given))
_TAKEN = {
    "MlxBuffer": _BUFFER,
    "Indices": _INTEGERS,
    "Positions": _COUNT,
    "Count": _COUNT,
    "DType": _DTYPE,
}
"""How a function takes an argument of an op, by its annotation: its own annotation, and the conversion."""
_LEFT_OUT = ("Encoder", "Output", "Outputs")


def derive(op: Op) -> Callable[..., Any]:
    """The function of `fn` that calls an op with the same arguments."""
    taken = {name: take for name, _, take in map(_parameter, _parameters(op)) if take is not None}
    derived = derived_signature(op)

    def function(*args: Any, stream: MlxDevice | None = None, **options: Any) -> Any:
        try:
            given = derived.bind(*args, **options)
        except TypeError as problem:
            raise SignatureError(f"{op.name}() {problem}; {the_call(op.name, derived)}") from None
        with call(stream, *given.arguments.values()) as run:
            for name, take in taken.items():
                if given.arguments.get(name) is not None:
                    given.arguments[name] = take(run, given.arguments[name], name)
            return op.function(run.enc, *given.args, **given.kwargs)

    function.__name__ = function.__qualname__ = op.name
    function.__module__ = __package__
    function.__doc__ = f"{cleandoc(op.function.__doc__ or '')}\n\nFormula: {op.formula}"
    function.__dict__["__signature__"] = derived
    return function


def derived_signature(op: Op) -> Signature:
    """The signature of `derive(op)`."""
    parameters = [each.replace(annotation=_parameter(each)[1]) for each in _parameters(op)]
    stream = Parameter("stream", Parameter.KEYWORD_ONLY, default=None, annotation="MlxDevice | None")
    return Signature([*parameters, stream], return_annotation=signature(op.function).return_annotation)


def _parameters(op: Op) -> list[Parameter]:
    return [each for each in signature(op.function).parameters.values() if each.annotation not in _LEFT_OUT]


def _parameter(given: Parameter) -> tuple[str, str, Take | None]:
    """The parameter's name, its annotation in the function, and its conversion, if any."""
    kind, optional, rest = str(given.annotation).partition(" | None")
    if rest:
        raise TypeError(f"{given}: no function can be derived from an op that takes such an argument")
    annotation, take = _TAKEN.get(kind, (kind, None))
    if take is None and "MlxBuffer" in kind:
        raise TypeError(f"{given}: no function can be derived from an op that takes such an argument")
    return given.name, annotation + optional, take
