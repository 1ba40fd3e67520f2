"""Text generation on tokens: a prompt in, new tokens out one at a time, with speeds and the reason of the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import InvalidArgument
from .cache import KVCache
from .decoder import Decoder, Sampling

__all__ = ["GenerationResponse", "generate_batch_ids", "generate_ids"]

_ROUND = 256  # capacities are whole multiples of this


@dataclass(frozen=True, slots=True)
class GenerationResponse:
    """A generated token and what it took, under the names of mlx-lm."""

    token: int
    logprob: float
    """The natural logarithm of its probability."""
    prompt_tokens: int
    prompt_tps: float
    """Tokens of the prompt per second, up to the first new one."""
    generation_tokens: int
    generation_tps: float
    peak_memory: float
    """The most memory of the device seen in use so far, in gigabytes."""
    finish_reason: Literal["stop", "length"] | None = None
    """Of the last one: a stop token or string, or that it was `max_tokens`."""
    text: str = ""
    """What it adds to the text so far, where there is a tokenizer; often nothing, as a character may take several."""


def generate_ids(
    model: Any,
    prompt_ids: Sequence[int],
    *,
    max_tokens: int = 256,
    stop_ids: Sequence[int] | None = None,
    prefill_step_size: int = 512,
    cache: KVCache | None = None,
    kv_bits: Literal[8] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **sampling: Any,
) -> Iterator[GenerationResponse]:
    """New tokens after a prompt, up to `max_tokens` or one of `stop_ids`, by default the model's own.

    `sampling` are the fields of `Sampling`: temperature, top_k, top_p, min_p, repetition_penalty, seed. A `cache` of
    an earlier call goes on behind what is in it. `progress` is told tokens done and tokens in all while the prompt is
    taken in.
    """
    stops = frozenset(model.config.stop_ids if stop_ids is None else stop_ids)
    if max_tokens < 1:
        raise InvalidArgument(f"generate_ids: max_tokens is {max_tokens}, expected at least 1")
    max_tokens = min(max_tokens, 1 + _room("generate_ids", model, len(prompt_ids), cache))
    if cache is None:
        cache = model.make_cache(
            capacity=_capacity(len(prompt_ids) + max_tokens, model), chunk=prefill_step_size, bits=kv_bits
        )
    return _generated(model.make_decoder(cache, _sampling(sampling)), list(prompt_ids), max_tokens, stops, progress)


def _generated(
    decoder: Decoder,
    prompt: list[int],
    max_tokens: int,
    stops: frozenset[int],
    progress: Callable[[int, int], None] | None,
) -> Iterator[GenerationResponse]:
    begin = time.perf_counter()
    decoder.prefill([prompt], progress)
    prompt_tps = 0.0
    for count in range(1, max_tokens + 1):
        (token,), (logprob,) = decoder.step()
        now = time.perf_counter()
        if count == 1:
            prompt_tps, begin = len(prompt) / (now - begin), now
        reason: Literal["stop", "length"] | None = "stop" if token in stops else None
        if reason is None and count == max_tokens:
            reason = "length"
        tps = (count - 1) / (now - begin) if count > 1 else 0.0
        peak = decoder.peak_bytes / 1e9
        yield GenerationResponse(token, logprob, len(prompt), prompt_tps, count, tps, peak, reason)
        if reason is not None:
            return


def generate_batch_ids(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    max_tokens: int = 256,
    stop_ids: Sequence[int] | None = None,
    prefill_step_size: int = 512,
    kv_bits: Literal[8] | None = None,
    **sampling: Any,
) -> list[list[int]]:
    """New tokens after each of several prompts, which share every step; a stop token ends its own sequence."""
    how = _sampling(sampling)
    stops = frozenset(model.config.stop_ids if stop_ids is None else stop_ids)
    if max_tokens < 1:
        raise InvalidArgument(f"generate_batch_ids: max_tokens is {max_tokens}, expected at least 1")
    most = [min(max_tokens, 1 + _room("generate_batch_ids", model, len(prompt))) for prompt in prompts]
    capacity = _capacity(max(map(len, prompts), default=0) + max(most, default=0), model)
    cache = model.make_cache(batch=len(prompts), capacity=capacity, chunk=prefill_step_size, bits=kv_bits)
    decoder: Decoder = model.make_decoder(cache, how)
    return decoder.sequences(prompts, most, stops)


def _sampling(options: dict[str, Any]) -> Sampling:
    known = Sampling.__slots__
    if unknown := sorted(set(options) - set(known)):
        raise InvalidArgument(f"generate_ids: there is no option {unknown[0]!r}; there are: {', '.join(known)}")
    return Sampling(**options)


def _room(name: str, model: Any, length: int, cache: KVCache | None = None) -> int:
    """Positions that a prompt leaves; the token behind the last of them can still be chosen."""
    longest: int = model.config.max_positions
    used = cache.lengths[0] if cache is not None else 0
    if used + length > longest:
        behind = f" behind {used} in the cache" if used else ""
        raise InvalidArgument(f"{name}: a prompt of {length} tokens{behind}, and the model reads {longest}")
    return longest - used - length


def _capacity(length: int, model: Any) -> int:
    """Room for all of it at once, where it is not more than the model was made for."""
    longest: int = model.config.max_positions
    return -(-min(length, longest) // _ROUND) * _ROUND
