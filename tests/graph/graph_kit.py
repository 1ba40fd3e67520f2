"""Small graphs on whole numbers for the tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py import ComputeGraph, MlxBuffer, MlxDevice, Out
from mlx_native_py.encoder.context import DeviceContext

from .random_graphs import SIZE, SOURCE


def kernel(device: DeviceContext, name: str) -> Any:
    return device.kernels.get_pipeline(name, library=device.kernels.library(SOURCE))


def numbers(device: MlxDevice, value: int) -> MlxBuffer:
    return device.buffer(np.full(SIZE, value, np.uint32))


def mix(
    g: ComputeGraph, a: MlxBuffer, b: MlxBuffer, out: MlxBuffer | None = None, k: int = 0, **options: Any
) -> MlxBuffer:
    out = g.encoder.empty(a.shape, "u32") if out is None else out
    g.encoder.dispatch(kernel(g.device, "mix"), a, b, Out(out), k, threads=a.size, **options)
    return out


def value(buffer: MlxBuffer) -> int:
    result = np.unique(buffer.numpy())
    assert result.size == 1
    return int(result[0])
