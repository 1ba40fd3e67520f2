"""`mlx-native bench decode`: tokens per second of a real model on the present device, beside numpy and llama.cpp."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import counters
from ..models import Decoder, load, prompt_ids
from .decode_numpy import NumpyLlama
from .harness import Measured, library, measuring, options, report

__all__ = ["EngineSpeed", "main", "measure"]

_PROMPT = "The capital of France is"
_LEAST_TPS, _MOST_CMD_BUFS, _MOST_MESSAGES = 15.0, 3.0, 60.0


@dataclass(frozen=True)
class EngineSpeed(Measured):
    """One engine over the same prompt; what does not apply to it, or is not installed, is None."""

    engine: str
    tokens_per_s: float | None
    """From the median time of a token."""
    same_tokens: int | None
    """How many of the first tokens are those of the device."""
    tokens: int
    command_buffers_per_token: float | None = None
    messages_per_token: float | None = None


def measure(name: str = "smollm2", tokens: int = 32, warm: int = 16) -> list[EngineSpeed]:
    """All engines in one run; the first `warm` tokens of each are not timed."""
    model, tokenizer = load(name)
    prompt = prompt_ids(tokenizer, _PROMPT)
    measuring("this package")
    ours, tokens_of_ours = _ours(model, prompt, warm, tokens)
    rows = [ours]
    measuring("other engines")
    rows.append(_peer("numpy float32", _numpy(model, prompt) if NumpyLlama.fits(model) else None, tokens_of_ours, warm))
    rows.append(_peer("llama-cpp-python", _llama_cpp(str(model.path), prompt), tokens_of_ours, warm))
    return rows


def _ours(model: Any, prompt: list[int], warm: int, tokens: int) -> tuple[EngineSpeed, list[int]]:
    cache = model.make_cache(capacity=-(-(len(prompt) + warm + tokens) // 256) * 256)
    decoder = Decoder(model, cache)
    decoder.prefill([prompt])

    def step() -> int:
        return decoder.step()[0][0]

    first = [step() for _ in range(warm)]
    with counters.scope() as tally:
        timed, times = _timed(step, tokens)
    speed, cmd_bufs, messages = 1 / statistics.median(times), tally.cmd_bufs / tokens, decoder.plan.message_count
    is_soft = model.device.backend.kind == "soft"
    passed = cmd_bufs <= _MOST_CMD_BUFS and messages <= _MOST_MESSAGES and (speed >= _LEAST_TPS or not is_soft)
    bar = f"<= {_MOST_CMD_BUFS:g} and <= {_MOST_MESSAGES:g}" + (f", >= {_LEAST_TPS:g} tokens/s" if is_soft else "")
    engine = f"this package, {model.device.backend.kind}"
    return EngineSpeed(engine, speed, None, tokens, cmd_bufs, float(messages), bar=bar, passed=passed), first + timed


def _timed(step: Callable[[], int], count: int) -> tuple[list[int], list[float]]:
    tokens, times = [], []
    for _ in range(count):
        begin = time.perf_counter()
        tokens.append(step())
        times.append(time.perf_counter() - begin)
    return tokens, times


def _peer(engine: str, step: Callable[[], int] | None, expected: list[int], warm: int) -> EngineSpeed:
    if step is None:
        return EngineSpeed(engine, None, None, 0)
    tokens, times = _timed(step, len(expected))
    same = next((at for at, (a, b) in enumerate(zip(tokens, expected, strict=True)) if a != b), len(tokens))
    return EngineSpeed(engine, 1 / statistics.median(times[warm:]), same, len(times) - warm)


def _numpy(model: Any, prompt: list[int]) -> Callable[[], int]:
    peer = NumpyLlama(model)
    for token in prompt[:-1]:
        peer.step(token)
    last = prompt[-1]

    def step() -> int:
        nonlocal last
        last = peer.step(last)
        return last

    return step


def _llama_cpp(path: str, prompt: list[int]) -> Callable[[], int] | None:
    llama = library("llama_cpp")
    if llama is None or not path.endswith(".gguf"):
        return None
    stream = llama.Llama(path, n_ctx=1024, verbose=False).generate(prompt, temp=0.0, repeat_penalty=1.0)
    return lambda: int(next(stream))


_COLUMNS: dict[str, Callable[[EngineSpeed], str | float | None]] = {
    "engine": lambda row: row.engine,
    "tokens/s": lambda row: row.tokens_per_s,
    "cmd bufs": lambda row: row.command_buffers_per_token,
    "messages": lambda row: row.messages_per_token,
    "same": lambda row: None if row.same_tokens is None else str(row.same_tokens),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table (or JSON); returns 1 where a bar is not met and `--strict` was given."""
    parser = options("decode", __doc__, rounds=False)
    parser.add_argument("--model", default="smollm2", help="a path, an alias or a name on the hub (default: smollm2)")
    parser.add_argument("--tokens", type=int, default=32, help="tokens to time (default: 32)")
    parser.add_argument("--warm", type=int, default=16, help="tokens before them that are not timed (default: 16)")
    chosen = parser.parse_args(argv)
    title = f"decode of {chosen.model}, one sequence, greedy; the median of one run on this machine; -: not installed"
    return report(chosen, title, measure(chosen.model, chosen.tokens, chosen.warm), _COLUMNS)
