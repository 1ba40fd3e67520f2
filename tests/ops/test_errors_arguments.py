"""Ops that are given something else than an encoder and buffers say what to pass."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxDevice, ops
from mlx_native_py.errors import InvalidArgument

pytestmark = pytest.mark.soft


def _buffers(function: Any) -> Iterator[str]:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.annotation in ("MlxBuffer", "Indices"):
            yield parameter.name


CASES = [(name, buffer) for name, op in ops.table().items() for buffer in _buffers(op.function)]


def test_every_op_is_here() -> None:
    assert {name for name, _ in CASES} >= ops.table().keys() - {"concat", "attention_mask"}


@pytest.mark.parametrize("name", ops.table())
def test_no_encoder(name: str) -> None:
    function = ops.table()[name].function
    required = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    with pytest.raises(InvalidArgument, match=f"{name}: the first argument is .*, expected device.command_encoder"):
        function(**dict.fromkeys(required, np.ones(4, np.float32)))


@pytest.mark.parametrize(("name", "buffer"), CASES)
def test_arrays(name: str, buffer: str) -> None:
    function = ops.table()[name].function
    with MlxDevice("soft") as device, device.command_encoder() as enc:
        given: dict[str, Any] = {}
        for parameter in list(inspect.signature(function).parameters.values())[1:]:
            if parameter.default is parameter.empty:
                given[parameter.name] = device.buffer(np.ones(4, np.float32))
        given[buffer] = np.ones(4, np.float32)
        with pytest.raises(InvalidArgument, match=rf"{name}: {buffer} is an array.*device\.buffer\({buffer}\)"):
            function(enc, **given)
