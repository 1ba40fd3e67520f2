"""What tests do with a model: logits of every position, and of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py.models import Decoder, StepInputs
from models.reference import Array


def all_logits(model: Any, tokens: list[int]) -> Array:
    """Of every position, in one chunk."""
    cache = model.make_cache(capacity=max(256, len(tokens)))
    inputs = StepInputs(model.device, 1, len(tokens))
    inputs.tokens.copy_from(np.asarray(tokens, np.uint32))
    inputs.set_positions([0])
    with model.device.command_encoder() as enc:
        logits = model.logits(enc, model(enc, inputs, cache.row(0)))
    return np.asarray(logits.numpy(), np.float32)


def decoded(model: Any, tokens: list[int], new: int, **options: Any) -> tuple[list[int], Array]:
    """Greedy tokens after a prompt, and the logits that they were chosen by."""
    decoder = Decoder(model, model.make_cache(**options))
    decoder.prefill([tokens])
    outcome, logits = [], []
    for _ in range(new):
        (token,), _ = decoder.step()
        outcome.append(token)
        logits.append(decoder.logits.numpy()[0].astype(np.float32))
    return outcome, np.array(logits)
