"""A decode step with states is captured once and serves every later token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from mlx_native_py import CommandEncoder, Dispatch, DType, MlxBuffer, MlxDevice, ops

from .rows_delta_net import Given, recurrence
from .rows_turboquant import attention

HEADS, CAPACITY, DIM, WINDOW, BITS = 2, 5, 64, 4, 8


@pytest.fixture(scope="module", params=["soft", pytest.param("metal", marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with MlxDevice(request.param) as opened:
        yield opened


def zeros(device: MlxDevice, *shape: int, dtype: DType = DType.F32) -> MlxBuffer:
    return device.empty(shape, dtype).fill(0)


def captured(enc: CommandEncoder) -> list[Dispatch]:
    return [node for node in enc.take_capture() or () if isinstance(node, Dispatch)]


def replay(device: MlxDevice, nodes: list[Dispatch]) -> None:
    with device.command_encoder() as enc:
        for node in nodes:
            enc.replay_dispatch(node)


def test_attention_on_codes_goes_on(device: MlxDevice) -> None:
    """Through a ring that is filled and wraps; what it holds is read back, so that only the step is in question."""
    rng = np.random.default_rng(0)
    q, k, v = (device.empty((2, HEADS, 1, DIM), DType.F32) for _ in "qkv")
    caches = [
        (zeros(device, 2, HEADS, CAPACITY, DIM, dtype=DType.U8), zeros(device, 2, HEADS, CAPACITY, 1)) for _ in "kv"
    ]
    position, length = device.empty(2, DType.U32), device.empty(2, DType.U32)
    with device.command_encoder() as enc:
        enc.start_capture()
        for new, cache in zip((k, v), caches, strict=True):
            ops.tq_quantize_kv(enc, new, cache, position=position, bits=BITS, ring=True)
        out = ops.tq_sdpa_decode(enc, q, *caches, length=length, bits=BITS, window=WINDOW)
        rows = [ops.tq_dequantize(enc, *cache, bits=BITS) for cache in caches]
        nodes = captured(enc)
    for token in range(2 * CAPACITY + 2):
        for buffer in (q, k, v):
            buffer.copy_from(rng.normal(size=buffer.shape).astype(np.float32))
        position.copy_from([token, token + 1]), length.copy_from([token + 1, token + 2])
        replay(device, nodes)
        keys, values = (np.asarray(each, np.float64) for each in rows)
        np.testing.assert_allclose(keys[0, :, token % CAPACITY], k.numpy()[0, :, 0], atol=0.12)
        expected = attention(q.numpy(), keys, values, [token + 1, token + 2], 1 / 8, WINDOW, 0.0)
        np.testing.assert_allclose(out.numpy(), expected, rtol=2e-5, atol=2e-6)


def test_recurrent_layers_go_on(device: MlxDevice) -> None:
    """A convolution feeds the delta rule; their states carry over from replay to replay."""
    rng = np.random.default_rng(1)
    x, g, beta = (device.empty((1, 1, width), DType.F32) for width in (8, 1, 1))
    weight = device.buffer(rng.normal(size=(8, 4)).astype(np.float32))
    taps, state = zeros(device, 1, 8, 3), zeros(device, 1, 1, 8, 8)
    with device.command_encoder() as enc:
        enc.start_capture()
        mixed = ops.ssm_conv(enc, x, weight, taps).reshape(1, 1, 1, 8)
        out = ops.gated_delta_net(enc, mixed, mixed, mixed, g, beta, state, norm_eps=1e-6)
        nodes = captured(enc)
    after = np.zeros((1, 1, 8, 8))
    for _ in range(6):
        for buffer in (x, g, beta):
            buffer.copy_from(rng.uniform(0, 1, buffer.shape).astype(np.float32))
        replay(device, nodes)
        each = mixed.numpy()
        expected, after = recurrence(Given(each, each, each, g.numpy(), beta.numpy(), after), norm_eps=1e-6)
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(state.numpy(), after, rtol=1e-5, atol=1e-6)
