"""Attention beyond single calls: a captured decode step for every token, and caches past 2**32 elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from mlx_native_py import Dispatch, DType, MlxDevice, ops

from .attention_reference import attention

HEADS, CAPACITY, DIM, WINDOW = 2, 6, 64, 5


@pytest.fixture(scope="module", params=["soft", pytest.param("metal", marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with MlxDevice(request.param) as opened:
        yield opened


def test_captured_step_replays_for_every_token(device: MlxDevice) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (device.empty((2, HEADS, 1, DIM), DType.F32) for _ in "qkv")
    caches = [device.buffer(np.full((2, HEADS, CAPACITY, DIM), np.nan, np.float32)) for _ in "kv"]
    position, length = (device.empty(2, DType.U32) for _ in "pl")
    with device.command_encoder() as enc:
        enc.start_capture()
        ops.kv_cache_copy(enc, k, v, *caches, position=position, ring=True)
        out = ops.sdpa(enc, q, *caches, scale=0.1, causal=True, window=WINDOW, length=length, ring=True)
        nodes = [node for node in enc.take_capture() or () if isinstance(node, Dispatch)]
    history = np.zeros((2, 2, HEADS, 0, DIM), np.float32)
    for token in range(2 * CAPACITY + 3):
        for buffer in (q, k, v):
            buffer.copy_from(rng.normal(size=buffer.shape).astype(np.float32))
        position.fill(token), length.fill(token + 1)
        history = np.concatenate([history, np.stack([k.numpy(), v.numpy()])], axis=3)
        with device.command_encoder() as enc:
            for node in nodes:
                enc.replay_dispatch(node)
        expected = attention(q.numpy(), history[0], history[1], 0.1, causal=True, window=WINDOW)
        np.testing.assert_allclose(out.numpy(), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.soft
@pytest.mark.full
def test_cache_beyond_32_bits() -> None:
    rng = np.random.default_rng(0)
    capacity, rows = 2**26 + 100, 8
    with MlxDevice("soft") as device:
        caches = [device.empty((1, 1, capacity, DIM), DType.F16) for _ in "kv"]
        k, v = (rng.normal(size=(1, 1, rows, DIM)).astype(np.float32) for _ in "kv")
        for queries in (1, 20):
            q = rng.normal(size=(1, 1, queries, DIM)).astype(np.float32)
            with device.command_encoder() as enc:
                ops.kv_cache_copy(enc, device.buffer(k), device.buffer(v), *caches, position=capacity - rows)
                out = ops.sdpa(enc, device.buffer(q), *caches, scale=0.1, causal=True, window=rows)
            expected = attention(q[:, :, -1:], k.astype(np.float16), v.astype(np.float16), 0.1)
            np.testing.assert_allclose(out.numpy()[:, :, -1:], expected, rtol=2e-5, atol=2e-6)
