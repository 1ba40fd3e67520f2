"""The next token."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..memory.buffer import MlxBuffer
from .call import call
from .inputs import whole

__all__ = ["softmax_sample"]


def softmax_sample(
    logits: Any,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    history: Any = None,
    history_length: Any = None,
    seed: int = 0,
    step: Any = 0,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """A token per row of logits, and the logarithm of its probability; the options are those of `ops.softmax_sample`.

    >>> token, log_probability = fn.softmax_sample(np.float32([[0, 9, 1]]), temperature=0.0)
    >>> token.numpy()
    array([1], dtype=uint32)
    """
    with call(stream) as run:
        return ops.softmax_sample(  # type: ignore[no-any-return]
            run.enc,
            run.put(logits, "logits"),
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            history=whole(run, history, "history", "uint32"),
            history_length=whole(run, history_length, "history_length", "uint32"),
            seed=seed,
            step=whole(run, step, "step", "uint32"),
        )
