"""The shipped elementwise kernels against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlx_native_py import DType, MlxDevice

FORMULAS = {"elementwise_add": np.add, "elementwise_mul": np.multiply}


def numbers(dtype: DType, count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, count)).astype(np.float32)
    return a.astype(dtype.numpy), b.astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16], ids=str)
@pytest.mark.parametrize("name", FORMULAS)
def test_two_operands(device: MlxDevice, name: str, dtype: DType) -> None:
    a, b = numbers(dtype, 1000)
    out = device.buffer(np.full(1001, 7, dtype.numpy))
    kernel = device.kernels.get_pipeline(f"{name}_{dtype}")
    with device.command_encoder() as enc:
        enc.dispatch(kernel, device.buffer(a), device.buffer(b), out, 1000, threadgroups=4, group=256)
    expected = FORMULAS[name](a.astype(np.float32), b.astype(np.float32)).astype(dtype.numpy)
    assert np.array_equal(out.numpy()[:1000], expected) and out.numpy()[1000] == 7


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16], ids=str)
def test_scalar_mul(device: MlxDevice, dtype: DType) -> None:
    x, _ = numbers(dtype, 100)
    out = device.empty(100, dtype)
    with device.command_encoder() as enc:
        enc.dispatch(device.kernels.get_pipeline(f"scalar_mul_{dtype}"), device.buffer(x), out, 1.5, 100, threads=100)
    assert np.array_equal(out.numpy(), (x.astype(np.float32) * np.float32(1.5)).astype(dtype.numpy))
