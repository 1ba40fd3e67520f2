"""Errors: what they also are, what they carry, and that they survive a pickle."""

from __future__ import annotations

import pickle

import pytest

from mlx_native_py import errors
from mlx_native_py.errors import (
    BufferAllocationError,
    CommandBufferError,
    KernelNotFound,
    MlxError,
    ShaderCompilationError,
)

BUILTINS = {
    "BackendError": RuntimeError,
    "BufferAllocationError": MemoryError,
    "CommandBufferError": RuntimeError,
    "DeviceNotFound": RuntimeError,
    "EncoderStateError": RuntimeError,
    "ForkedProcessError": RuntimeError,
    "InvalidArgument": ValueError,
    "KernelNotFound": LookupError,
    "SettingsError": ValueError,
    "ShaderCompilationError": RuntimeError,
    "SignatureError": TypeError,
    "WaitTimeout": TimeoutError,
}


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_each_is_ours_and_a_builtin(name: str) -> None:
    assert issubclass(getattr(errors, name), MlxError) and issubclass(getattr(errors, name), BUILTINS[name])
    assert name in (errors.__doc__ or ""), "drawn in the tree"


@pytest.mark.parametrize("code", [None, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 99])
def test_command_buffer_errors(code: int | None) -> None:
    error = CommandBufferError("it broke", code=code, label="layer", dispatches=[f"k{i}" for i in range(12)])
    assert error.is_transient == (code not in (4, 7, 11))
    assert str(error).startswith("Command buffer error:") and "'layer'" in str(error)
    assert "it broke" in str(error) and "k0" in str(error) and "and 4 more" in str(error)
    assert code is None or f"(code {code})" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.dispatches) == (str(error), code, error.dispatches)


@pytest.mark.parametrize(
    "error",
    [
        KernelNotFound("axpi", ["axpy"]),
        KernelNotFound("nothing"),
        ShaderCompilationError("axpy", "line 3"),
        BufferAllocationError(7),
    ],
)
def test_the_others_survive_a_pickle(error: MlxError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert not error.is_transient
