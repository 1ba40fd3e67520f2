"""Fused linear layers: one product for layers whose weights are adjacent or small enough to copy."""

from __future__ import annotations

import numpy as np
import pytest

from mlx_native_py import MlxDevice
from mlx_native_py.models import fused_linear
from mlx_native_py.models.fused_linear import FusedLinear, fuse_linears
from mlx_native_py.models.linear import Dense, Linear

RNG = np.random.default_rng(3)


def results(device: MlxDevice, layers: FusedLinear, x: np.ndarray) -> tuple[list[np.ndarray], int]:
    """What the layers make of x, and with how many dispatches."""
    with device.capture() as graph:
        found = layers(graph.encoder, device.buffer(x))
    graph.run()
    return [each.numpy() for each in found], graph.dispatch_count()


def dense(device: MlxDevice, rows: int, bias: bool = False) -> Linear:
    weight = device.buffer(RNG.normal(size=(rows, 64)).astype(np.float32))
    return Dense(weight, device.buffer(RNG.normal(size=rows).astype(np.float32)) if bias else None)


@pytest.mark.parametrize("bias", [False, True])
def test_one_row_takes_one_product(device: MlxDevice, bias: bool) -> None:
    parts = [dense(device, rows, bias) for rows in (96, 40, 33)]
    layers = fuse_linears(device, *parts)
    for rows in (1, 3):
        x = RNG.normal(size=(rows, 64)).astype(np.float32)
        found, count = results(device, layers, x)
        assert count == (1 if rows == 1 else 3)
        for part, mine in zip(parts, found, strict=True):
            offset = 0 if part.bias is None else part.bias.numpy()
            np.testing.assert_allclose(mine, x @ part.weight.numpy().T + offset, rtol=1e-4, atol=1e-4)


def test_neighbours_are_not_copied(device: MlxDevice) -> None:
    both = device.buffer(RNG.normal(size=(80, 64)).astype(np.float32))
    layers = fuse_linears(device, Dense(both[:48], None), Dense(both[48:], None))
    assert layers.whole is not None and layers.whole.weight.span == both.span


def test_what_differs_or_is_large_stays_apart(device: MlxDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    small = device.buffer(RNG.normal(size=(32, 64)).astype(np.float16))
    assert fuse_linears(device, dense(device, 32), Dense(small, None)).whole is None
    assert fuse_linears(device, dense(device, 32), dense(device, 32, bias=True)).whole is None
    monkeypatch.setattr(fused_linear, "_WORTH_COPYING", 100)
    assert fuse_linears(device, dense(device, 32), dense(device, 32)).whole is None
