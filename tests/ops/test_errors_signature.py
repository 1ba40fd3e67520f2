"""Ops and functions that are called with too few, too many or unknown arguments, or without an encoder."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxDevice, fn, ops
from mlx_native_py.errors import InvalidArgument, SignatureError

pytestmark = pytest.mark.soft
ONES = np.ones(4, np.float32)


def required(function: Any) -> list[str]:
    return [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]


@pytest.mark.parametrize("name", ops.table())
def test_an_op_without_an_encoder_names_the_function_that_needs_none(name: str) -> None:
    op = ops.table()[name]
    given = [ONES] * min(len(required(op.function)) - 1, _places(op.function))
    with pytest.raises(InvalidArgument) as caught:
        op.function(*given)
    said = str(caught.value)
    assert said.startswith(
        f"{name}: the first argument is {'an array of float32[4]' if given else 'missing'}, expected "
    )
    assert "device.command_encoder()" in said
    assert all(f"fn.{function}" in said for function in op.functions)
    assert all(callable(getattr(fn, function)) for function in op.functions)


@pytest.mark.parametrize("name", ops.table())
def test_arguments_of_an_op_that_are_missing_too_many_or_unknown(name: str, device: MlxDevice) -> None:
    function = ops.table()[name].function
    wanted = required(function)[1:]
    with device.command_encoder() as enc:
        x = device.buffer(ONES)
        for _ in range(3 if wanted else 0):  # also when calls like it are recorded
            with pytest.raises(SignatureError, match=rf"{name}: {wanted[0]} is missing; the call is {name}\(enc, "):
                function(enc)
        with pytest.raises(SignatureError, match=rf"{name}: 30 too many arguments; the call is {name}\(enc, "):
            function(enc, *[x] * (30 + _places(function)))
        with pytest.raises(TypeError, match=f"{name}: there is no argument 'nonsense'; the call is {name}"):
            function(enc, **dict.fromkeys(wanted, x), nonsense=1)


def _places(function: Any) -> int:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return sum(each.kind is not each.KEYWORD_ONLY for each in parameters)


def test_a_buffer_in_the_place_of_the_encoder(device: MlxDevice) -> None:
    add: Any = ops.add
    mul: Any = ops.mul
    x = device.buffer(ONES)
    with pytest.raises(InvalidArgument, match=r"add: the first argument is a buffer of f32\[4\], .* call fn\.add"):
        add(x, x)
    with pytest.raises(InvalidArgument, match=r"mul: the first .* call fn\.multiply"):
        mul(x, x)


@pytest.mark.parametrize("name", sorted({name for op in ops.table().values() for name in op.functions}))
def test_functions_on_arrays(name: str) -> None:
    function = getattr(fn, name)
    with pytest.raises(SignatureError, match=rf"{name}\(\) missing a required argument: .*; the call is {name}\("):
        function()
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'nonsense'; the call is"):
        function(**dict.fromkeys(required(function), ONES), nonsense=1)


def test_derived_functions_on_arrays() -> None:
    silu: Any = fn.silu
    with pytest.raises(SignatureError, match=r"silu\(\) missing a required argument: 'x'; the call is silu\(x, \*, "):
        silu()
    with pytest.raises(TypeError, match=r"silu\(\) got an unexpected keyword argument 'y'"):
        silu(ONES, y=1)
