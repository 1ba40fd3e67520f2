"""Compilations that fail without an NSError."""

from __future__ import annotations

from typing import Any

import pytest

from mlx_native_py import MlxDevice
from mlx_native_py.errors import ShaderCompilationError

SOURCE = "kernel void k(device int *x) { x[0] = 1; }"


def fails(*arguments: Any) -> tuple[None, ...]:
    """Answers as a selector that fails: nil for the result and for each out-parameter."""
    return (None,) * (1 + sum(each is None for each in arguments))


@pytest.mark.soft
@pytest.mark.parametrize(
    "selector",
    ["newLibraryWithSource_options_error_", "newComputePipelineStateWithDescriptor_options_reflection_error_"],
)
def test_no_reason_is_given(monkeypatch: pytest.MonkeyPatch, selector: str) -> None:
    with MlxDevice("soft") as device:
        monkeypatch.setattr(type(device.mtl), selector, lambda self, *arguments: fails(*arguments))
        with pytest.raises(ShaderCompilationError, match="no reason given"):
            device.compile(SOURCE).k(device.empty(1, "i32"))
