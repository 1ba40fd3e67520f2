"""Some work to profile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mlx_native_py import MlxDevice, ops, region

Work = Callable[[], None]
LAYERS = 3


@pytest.fixture
def work(device: MlxDevice) -> Work:
    """A command buffer "step" of three layers, each with a norm and a product in "attention", and a sum."""
    x = device.buffer(np.ones((8, 64), np.float32), label="x")
    w = device.buffer(np.ones((64, 64), np.float32))
    scale = device.buffer(np.ones(64, np.float32))

    def run() -> None:
        with device.command_encoder() as enc:
            for layer in range(LAYERS):
                with region(f"layer {layer}"):
                    with region("attention"):
                        y = ops.matmul(enc, ops.rms_norm(enc, x, scale, eps=1e-5), w)
                    ops.add(enc, x, y)
            enc.commit_and_wait("step")

    return run
