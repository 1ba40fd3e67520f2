"""Text generation on token ids: tokens one at a time, with speeds and the finish reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import InvalidArgument
from .cache import KVCache
from .decoder import Decoder, Sampling

__all__ = ["GenerationResponse", "generate_batch_ids", "generate_ids"]

_CAPACITY_STEP = 256  # cache capacities are multiples of this


@dataclass(frozen=True, slots=True)
class GenerationResponse:
    """A generated token with statistics; the names are mlx-lm's."""

    token: int
    logprob: float
    """The natural logarithm of its probability."""
    prompt_tokens: int
    prompt_tps: float
    """Prompt tokens per second, up to the first new token."""
    generation_tokens: int
    generation_tps: float
    peak_memory: float
    """The most device memory in use so far, in gigabytes."""
    finish_reason: Literal["stop", "length"] | None = None
    """On the last response: a stop token or string was found, or `max_tokens` was reached."""
    text: str = ""
    """The text that it completes, if there is a tokenizer; often empty, since a character may take several tokens."""


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
    """Generates tokens after a prompt, up to `max_tokens` or one of `stop_ids` (default: the model's own).

    `sampling` are the fields of `Sampling`: temperature, top_k, top_p, min_p, repetition_penalty, seed. A `cache` from
    an earlier call is continued. `progress(done, total)` is called while the prompt is processed.
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
    """Generates tokens after each of several prompts, which share every step; a stop token ends its own sequence."""
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
    """Positions left after a prompt; the token after the last position can still be sampled."""
    longest: int = model.config.max_positions
    used = cache.lengths[0] if cache is not None else 0
    if used + length > longest:
        cached = f" after {used} in the cache" if used else ""
        raise InvalidArgument(f"{name}: a prompt of {length} tokens{cached} exceeds the context length of {longest}")
    return longest - used - length


def _capacity(length: int, model: Any) -> int:
    """The cache size for a whole generation, limited to the model's context."""
    longest: int = model.config.max_positions
    return -(-min(length, longest) // _CAPACITY_STEP) * _CAPACITY_STEP
