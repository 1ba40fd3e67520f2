"""`mlx-native bench decode`: prompt, first-token and decode speed of a real model, with numpy and llama.cpp."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import counters, settings
from ..models import Decoder, load, prompt_ids
from .bandwidth import read_bandwidth
from .decode_peers import Peer, Step, peers
from .harness import Measured, measuring, options, report

__all__ = ["EngineSpeed", "first_token_of_a_cold_start", "main", "measure"]

_PROMPT = "The capital of France is"
_SHORT = 10
_LEAST_TPS, _MOST_CMD_BUFS, _MOST_MESSAGES = 15.0, 3.0, 60.0
_ROUNDS = 3


@dataclass(frozen=True)
class EngineSpeed(Measured):
    """One engine on the same prompts; None for what does not apply or is not installed."""

    engine: str
    tokens_per_s: float | None
    """From the median time per token."""
    same_tokens: int | None
    """How many of the first tokens equal those of the device."""
    tokens: int
    prompt_tokens_per_s: float | None = None
    first_token_ms: float | None = None
    """For a prompt of ten tokens, in a process that has run one before."""
    cold_first_token_ms: float | None = None
    """The same in a new process with an empty kernel cache, including loading the model."""
    dispatches_per_token: int | None = None
    command_buffers_per_token: float | None = None
    messages_per_token: float | None = None
    gb_per_s: float | None = None
    """Weights read per token, divided by its time."""
    bandwidth_share: float | None = None
    """Relative to the device's read bandwidth."""


class _OwnEngine:
    """This package; `decoder` is that of the last prompt."""

    takes_prompts = True

    def __init__(self, model: Any, context: int) -> None:
        self.name = f"this package, {model.device.backend.kind}"
        self._model, self._context = model, -(-context // 256) * 256

    def begin(self, prompt: Sequence[int]) -> Step:
        decoder = self.decoder = Decoder(self._model, self._model.make_cache(capacity=self._context))
        decoder.prefill([prompt])
        return lambda: decoder.step()[0][0]


def measure(
    name: str = "smollm2", tokens: int = 32, warm: int = 16, prompt: int = 256, *, cold: bool = False
) -> list[EngineSpeed]:
    """All engines in one run; the first `warm` tokens of each are not timed."""
    model, tokenizer = load(name)
    ids = prompt_ids(tokenizer, _PROMPT)
    longest = (ids * (prompt // len(ids) + 1))[:prompt]
    measuring("this package")
    device = _OwnEngine(model, prompt + warm + tokens)
    ours, expected = _measured(device, ids, longest, warm, tokens)
    rows = [_with_counts(ours, model, device, tokens, first_token_of_a_cold_start(name) if cold else None)]
    for peer in peers(model, prompt + warm + tokens):
        if isinstance(peer, str):
            rows.append(EngineSpeed(peer, None, None, 0))
            continue
        measuring(peer.name)
        rows.append(_measured(peer, ids, longest, warm, tokens, expected)[0])
    return rows


def _measured(
    engine: Peer, ids: list[int], longest: list[int], warm: int, tokens: int, expected: list[int] | None = None
) -> tuple[EngineSpeed, list[int]]:
    prompt_speed = first = None
    if engine.takes_prompts:
        prompt_speed = (len(longest) - 1) / _least(lambda: engine.begin(longest))
        first = _least(lambda: engine.begin((ids * _SHORT)[:_SHORT])()) * 1e3
    step = engine.begin(ids)
    generated, times = _timed(step, warm + tokens)
    same = None
    if expected is not None:
        same = next((at for at, (a, b) in enumerate(zip(generated, expected, strict=True)) if a != b), len(generated))
    speed = 1 / statistics.median(times[warm:])
    row = EngineSpeed(engine.name, speed, same, tokens, prompt_tokens_per_s=prompt_speed, first_token_ms=first)
    return row, generated


def _least(work: Callable[[], object]) -> float:
    """The shortest of a few rounds in seconds, after a warm-up round."""
    times = []
    for _ in range(_ROUNDS + 1):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def _timed(step: Step, count: int) -> tuple[list[int], list[float]]:
    tokens, times = [], []
    for _ in range(count):
        begin = time.perf_counter()
        tokens.append(step())
        times.append(time.perf_counter() - begin)
    return tokens, times


def _with_counts(row: EngineSpeed, model: Any, device: _OwnEngine, tokens: int, cold_ms: float | None) -> EngineSpeed:
    """Adds dispatches, messages and command buffers per token, and the verdict."""
    decoder = device.decoder
    with counters.scope() as tally:
        _timed(lambda: decoder.step()[0][0], tokens)
    assert row.tokens_per_s is not None
    cmd_bufs, messages = tally.cmd_bufs / tokens, float(decoder.plan.message_count)
    is_soft = model.device.backend.kind == "soft"
    passed = (
        cmd_bufs <= _MOST_CMD_BUFS and messages <= _MOST_MESSAGES and (row.tokens_per_s >= _LEAST_TPS or not is_soft)
    )
    bar = f"<= {_MOST_CMD_BUFS:g} and <= {_MOST_MESSAGES:g}" + (f", >= {_LEAST_TPS:g} tokens/s" if is_soft else "")
    speed = _weight_bytes(decoder) * row.tokens_per_s
    return EngineSpeed(
        *(row.engine, row.tokens_per_s, None, tokens, row.prompt_tokens_per_s, row.first_token_ms, cold_ms),
        *(len(decoder.plan.graph.nodes), cmd_bufs, messages, speed / 1e9, speed / read_bandwidth(model.device)),
        bar=bar,
        passed=passed,
    )


def _weight_bytes(decoder: Decoder) -> int:
    """Bytes that a step reads but never writes, counted once."""
    nodes = decoder.plan.graph.nodes
    written = {each.allocation for node in nodes for each in node.writes}
    read = {(each.start, each.end) for node in nodes for each in node.reads if each.allocation not in written}
    return sum(end - start for start, end in read)


def first_token_of_a_cold_start(name: str) -> float:
    """Milliseconds from import to the first token, in a process with an empty kernel cache."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", __name__, name, folder]
        completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(completed.stdout.splitlines()[-1])


def _cold_start(name: str, folder: str) -> None:
    begin = time.perf_counter()
    with settings.override(soft_cache_dir=Path(folder)):
        model, tokenizer = load(name, prepare=True)
        ids = prompt_ids(tokenizer, _PROMPT)
        _OwnEngine(model, 256).begin((ids * _SHORT)[:_SHORT])()
        print((time.perf_counter() - begin) * 1e3)


def _share(row: EngineSpeed) -> str | None:
    return None if row.bandwidth_share is None else f"{100 * row.bandwidth_share:.0f} %"


_COLUMNS: dict[str, Callable[[EngineSpeed], str | float | None]] = {
    "engine": lambda row: row.engine,
    "prompt tokens/s": lambda row: row.prompt_tokens_per_s,
    "first ms": lambda row: row.first_token_ms,
    "cold ms": lambda row: row.cold_first_token_ms,
    "tokens/s": lambda row: row.tokens_per_s,
    "dispatches": lambda row: None if row.dispatches_per_token is None else str(row.dispatches_per_token),
    "cmd bufs": lambda row: row.command_buffers_per_token,
    "messages": lambda row: row.messages_per_token,
    "GB/s": lambda row: row.gb_per_s,
    "of limit": _share,
    "same": lambda row: None if row.same_tokens is None else str(row.same_tokens),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table (or JSON); returns 1 if a bar is missed and `--strict` was given."""
    parser = options("decode", __doc__, rounds=False)
    parser.add_argument("--model", default="smollm2", help="a path, an alias or a name on the hub (default: smollm2)")
    parser.add_argument("--tokens", type=int, default=32, help="tokens to time (default: 32)")
    parser.add_argument("--warm", type=int, default=16, help="tokens before them that are not timed (default: 16)")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of the long prompt (default: 256)")
    parser.add_argument("--cold", action="store_true", help="also time a new process that has no compiled kernels")
    chosen = parser.parse_args(argv)
    title = f"{chosen.model}, one sequence, greedy; median of tokens, best of prompts, in one run; -: not installed"
    rows = measure(chosen.model, chosen.tokens, chosen.warm, chosen.prompt, cold=chosen.cold)
    return report(chosen, title, rows, _COLUMNS)


if __name__ == "__main__":
    _cold_start(*sys.argv[1:])
