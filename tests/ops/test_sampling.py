"""Sampling as a whole: the distribution of its draws, and steps that change under a captured one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mlx_native_py import Dispatch, DType, MlxDevice, fn, ops

from .rows_sampling import kept, penalised, philox, weights_of

ROWS = 4000
LIMIT = 5.0
"""Standard deviations of chi-square that chance is allowed."""


@pytest.fixture(scope="module", params=["soft", pytest.param("metal", marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with MlxDevice(request.param) as opened:
        yield opened


def test_random_numbers_are_those_of_philox() -> None:
    """Known answers of Philox-4x32-10."""
    assert philox((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 0xFFFFFFFF
    assert philox((ones,) * 4, (ones,) * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize("count", [5, 100, 256, 1024, 5000])
def test_a_nan_is_as_good_as_minus_infinity(device: MlxDevice, count: int) -> None:
    logits = np.full((2, count), -np.inf, np.float32)
    logits[0, 0] = logits[1, :3] = np.nan
    tokens, _ = fn.softmax_sample(logits, temperature=0.0, stream=device)
    assert tokens.numpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.6}, {"top_k": 5}, {"top_p": 0.7}, {"min_p": 0.1}, {"top_k": 8, "top_p": 0.9}],
    ids=str,
)
def test_draws_have_the_distribution(device: MlxDevice, options: dict[str, Any]) -> None:
    logits = np.random.default_rng(1).normal(size=24).astype(np.float32) * 1.5
    tokens, _ = fn.softmax_sample(np.tile(logits, (ROWS, 1)), seed=42, stream=device, **options)
    counts = np.bincount(tokens.numpy(), minlength=24)
    weights = weights_of(logits, options.get("temperature", 1.0))
    filters = int(options.get("top_k", 0)), options.get("top_p", 1.0), options.get("min_p", 0.0)
    allowed = kept(logits, weights, *filters)
    assert counts.sum() == counts[allowed].sum() == ROWS
    expected = np.array([weights[token] for token in allowed], np.float64)
    expected *= ROWS / expected.sum()
    chi_square = float(np.sum((counts[allowed] - expected) ** 2 / expected))
    freedom = len(allowed) - 1
    assert chi_square < freedom + LIMIT * np.sqrt(2 * max(freedom, 1))


def test_a_seed_and_a_step_say_it_all(device: MlxDevice) -> None:
    logits = np.random.default_rng(2).normal(size=(64, 500)).astype(np.float32)
    draws = [fn.softmax_sample(logits, seed=seed, step=step, stream=device)[0].numpy() for seed, step in
             ((1, 0), (1, 0), (2, 0), (1, 1), (1 + (1 << 32), 0))]  # fmt: skip
    assert np.array_equal(draws[0], draws[1])
    assert all(np.mean(draws[0] != other) > 0.8 for other in draws[2:])


def test_captured_step_is_replayed_with_other_values(device: MlxDevice) -> None:
    """The step and the length of the history are in buffers, and the token joins the history."""
    logits = np.random.default_rng(3).normal(size=(1, 50)).astype(np.float32)
    history, length, step = (device.empty((1, n), DType.U32) for n in (8, 1, 1))
    enc = device.command_encoder()
    enc.start_capture()
    token, _ = ops.softmax_sample(
        enc, device.buffer(logits), history=history, history_length=length, repetition_penalty=4.0, step=step, seed=9
    )
    nodes = enc.take_capture()
    enc.discard()
    assert nodes
    seen: list[int] = []
    for number in range(8):
        length.numpy()[...], step.numpy()[...] = number, number
        with device.command_encoder() as again:
            for node in nodes:
                assert isinstance(node, Dispatch)
                again.replay_dispatch(node)
        changed = penalised(logits[0], np.array(seen, np.uint32), 4.0)
        expected, _ = fn.softmax_sample(changed[None], seed=9, step=number, stream=device)
        assert token.numpy()[0] == expected.numpy()[0]
        seen.append(int(token.numpy()[0]))
        history.numpy()[0, number] = seen[-1]
    assert len(set(seen)) > 1
