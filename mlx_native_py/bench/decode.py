"""`mlx-native bench decode`: tokens per second of a real model on the present device, beside numpy and llama.cpp."""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .. import counters
from ..models import Decoder, load, prompt_ids
from .decode_numpy import NumpyLlama

__all__ = ["Row", "main", "measure"]

_PROMPT = "The capital of France is"
_LEAST_TPS, _MOST_CMD_BUFS, _MOST_MESSAGES = 15.0, 3.0, 60.0


@dataclass(frozen=True)
class Row:
    """One engine over the same prompt; what does not apply to it, or is not installed, is None."""

    engine: str
    tokens_per_s: float | None
    """From the median time of a token."""
    same_tokens: int | None
    """How many of the first tokens are those of the device."""
    tokens: int
    command_buffers_per_token: float | None = None
    messages_per_token: float | None = None
    bar: str = ""
    passed: bool | None = None


def measure(name: str = "smollm2", tokens: int = 32, warm: int = 16) -> list[Row]:
    """All engines in one run; the first `warm` tokens of each are not timed."""
    model, tokenizer = load(name)
    prompt = prompt_ids(tokenizer, _PROMPT)
    ours, made = _ours(model, prompt, warm, tokens)
    rows = [ours]
    rows.append(_peer("numpy float32", _numpy(model, prompt) if NumpyLlama.fits(model) else None, made, warm))
    rows.append(_peer("llama-cpp-python", _llama_cpp(str(model.path), prompt), made, warm))
    return rows


def _ours(model: Any, prompt: list[int], warm: int, tokens: int) -> tuple[Row, list[int]]:
    cache = model.make_cache(capacity=-(-(len(prompt) + warm + tokens) // 256) * 256)
    decoder = Decoder(model, cache)
    decoder.prefill([prompt])

    def step() -> int:
        return decoder.step()[0][0]

    made = [step() for _ in range(warm)]
    with counters.scope() as tally:
        timed, times = _timed(step, tokens)
    speed, cmd_bufs, messages = 1 / statistics.median(times), tally.cmd_bufs / tokens, decoder.plan.message_count
    is_soft = model.device.backend.kind == "soft"
    passed = cmd_bufs <= _MOST_CMD_BUFS and messages <= _MOST_MESSAGES and (speed >= _LEAST_TPS or not is_soft)
    bar = f"<= {_MOST_CMD_BUFS:g} and <= {_MOST_MESSAGES:g}" + (f", >= {_LEAST_TPS:g} tokens/s" if is_soft else "")
    engine = f"this package, {model.device.backend.kind}"
    return Row(engine, speed, None, tokens, cmd_bufs, float(messages), bar, passed), made + timed


def _timed(step: Callable[[], int], count: int) -> tuple[list[int], list[float]]:
    made, times = [], []
    for _ in range(count):
        begin = time.perf_counter()
        made.append(step())
        times.append(time.perf_counter() - begin)
    return made, times


def _peer(engine: str, step: Callable[[], int] | None, expected: list[int], warm: int) -> Row:
    if step is None:
        return Row(engine, None, None, 0)
    made, times = _timed(step, len(expected))
    same = next((at for at, (a, b) in enumerate(zip(made, expected, strict=True)) if a != b), len(made))
    return Row(engine, 1 / statistics.median(times[warm:]), same, len(times) - warm)


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
    try:
        llama = importlib.import_module("llama_cpp")
    except ImportError:
        return None
    if not path.endswith(".gguf"):
        return None
    made = llama.Llama(path, n_ctx=1024, verbose=False).generate(prompt, temp=0.0, repeat_penalty=1.0)
    return lambda: int(next(made))


def _print(name: str, rows: Sequence[Row]) -> None:
    def cell(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    print(f"decode of {name}, one sequence, greedy; the median of one run on this machine")
    print(f"{'engine':24}{'tokens/s':>10}{'cmd bufs':>10}{'messages':>10}{'same':>8}  bar")
    for row in rows:
        verdict = "" if row.passed is None else ("  met" if row.passed else "  NOT MET")
        missing = "  not installed, or cannot run this model" if row.tokens_per_s is None else ""
        cells = (row.tokens_per_s, row.command_buffers_per_token, row.messages_per_token)
        same = "-" if row.same_tokens is None else str(row.same_tokens)
        print(f"{row.engine:24}{''.join(f'{cell(each):>10}' for each in cells)}{same:>8}  {row.bar}{verdict}{missing}")


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table (or JSON); returns 1 where a bar is not met and `--strict` was given."""
    parser = argparse.ArgumentParser(prog="mlx-native bench decode", description=__doc__)
    parser.add_argument("--model", default="smollm2", help="a path, an alias or a name on the hub (default: smollm2)")
    parser.add_argument("--tokens", type=int, default=32, help="tokens to time (default: 32)")
    parser.add_argument("--warm", type=int, default=16, help="tokens before them that are not timed (default: 16)")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a bar is not met")
    chosen = parser.parse_args(argv)
    rows = measure(chosen.model, chosen.tokens, chosen.warm)
    if chosen.json:
        json.dump([asdict(row) for row in rows], sys.stdout, indent=1)
        print()
    else:
        _print(chosen.model, rows)
    return int(chosen.strict and any(row.passed is False for row in rows))
