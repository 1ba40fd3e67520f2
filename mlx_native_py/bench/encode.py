"""`mlx-native bench encode`: messages and microseconds of each way to encode a decode token, beside other libraries."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from statistics import median
from typing import Any

from ..device import MlxDevice
from ..encoder import CommandEncoder
from ..graph import ComputeGraph
from ..hazards.ranges import Memory
from ..hazards.tracker import MemRanges
from . import peers, trace
from .decode_step import DecodeStep
from .harness import measuring
from .null import counting_device, free_device

__all__ = ["Level", "main", "measure"]

LEVELS = ("eager", "replay", "icb")
GROWTH = (100, 1_000, 10_000, 100_000)
RANGES = (10, 100, 1_000, 10_000)
_WARM_UP = 2  # rounds that are not counted: the first ones work out launches, ops and kernels's own functions


@dataclass(frozen=True)
class Level:
    """One way to encode the trace: its messages, and Python's time for each dispatch."""

    messages_per_dispatch: float
    messages_per_token: int
    barriers: int
    bookkeeping_us: float
    """With messages that cost next to nothing."""
    soft_us: float
    """With the messages of the software device; what they ask for is not run."""


Encode = Callable[[CommandEncoder], None]
Workload = Callable[[MlxDevice], tuple[Encode, ComputeGraph]]


def _trace(dispatches: int) -> Workload:
    def make(device: MlxDevice) -> tuple[Encode, ComputeGraph]:
        calls = trace.calls(device, dispatches)
        return (lambda enc: trace.encode(enc, calls)), trace.captured(device, calls)

    return cache(make)


def _model(device: MlxDevice) -> tuple[Encode, ComputeGraph]:
    """A decode step of Llama's shape through our ops, with 30 layers."""
    step = DecodeStep(device)
    with device.capture(token=step.token) as graph:
        graph.keep(logits=step.encode(graph.encoder))

    def eager(enc: CommandEncoder) -> None:
        step.encode(enc)

    return eager, graph


def _way(level: str, device: MlxDevice, work: Workload) -> Encode:
    eager, graph = work(device)
    if level == "eager":
        return eager
    return graph.plan(indirect=level == "icb").encode


def _seconds(device: MlxDevice, encode: Encode, rounds: int, *, runs: bool) -> float:
    """The median time of encoding, without opening and closing the command buffer.

    What is committed retires, so that its results are used again by the next round, as in a program; `runs=False` is
    for a device on which that would run the work.
    """
    times = []
    for round_number in range(_WARM_UP + rounds):
        enc = device.command_encoder()
        begin = time.perf_counter()
        encode(enc)
        if round_number >= _WARM_UP:
            times.append(time.perf_counter() - begin)
        if runs:
            enc.commit_and_wait()
        enc.discard()
    return median(times)


@dataclass(frozen=True)
class _Devices:
    """The software device, one whose messages are free, and one that counts them."""

    soft: MlxDevice
    free: MlxDevice
    counting: MlxDevice
    counts: Counter[str]

    @classmethod
    def on(cls, soft: MlxDevice) -> _Devices:
        return cls(soft, free_device(soft), *counting_device(soft))

    def level(self, level: str, work: Workload, rounds: int) -> Level:
        encode = _way(level, self.counting, work)
        self.counts.clear()
        with self.counting.command_encoder() as enc:
            encode(enc)
        messages, dispatches = self.counts.total(), work(self.soft)[1].dispatch_count()
        free = _seconds(self.free, _way(level, self.free, work), rounds, runs=True) / dispatches * 1e6
        soft = _seconds(self.soft, _way(level, self.soft, work), rounds, runs=False) / dispatches * 1e6
        return Level(messages / dispatches, messages, enc.tally.barriers, free, soft)

    def levels(self, work: Workload, rounds: int) -> dict[str, dict[str, float]]:
        found = {}
        for level in LEVELS:
            measuring(f"level {level}")
            found[level] = asdict(self.level(level, work, rounds))
        return found


def _counts(graph: ComputeGraph) -> dict[str, int]:
    return {"dispatches": graph.dispatch_count(), "barriers": graph.barrier_count()}


def _floor(rounds: int, dispatches: int = trace.DISPATCHES) -> float:
    """Microseconds of three no-op calls of C in a loop: what a dispatch takes at the very least."""
    one, two, three = {}.get, {}.get, {}.get  # type: ignore[var-annotated]
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for index in range(dispatches):
            one(index)
            two(index, index)
            three(index, index)
        times.append(time.perf_counter() - begin)
    return median(times) / dispatches * 1e6


def _growth(free: MlxDevice, rounds: int, sizes: Sequence[int]) -> dict[str, dict[str, float]]:
    """Microseconds a dispatch of longer and longer traces."""
    found: dict[str, dict[str, float]] = {"replay": {}, "icb": {}}
    for size in sizes:
        measuring(f"traces of {size} dispatches")
        for level, row in found.items():
            encode = _way(level, free, _trace(size))
            row[str(size)] = _seconds(free, encode, max(3, rounds // (1 + size // 10_000)), runs=True) / size * 1e6
    return found


def _tracker(rounds: int, sizes: Sequence[int] = RANGES) -> dict[str, float]:
    """Microseconds of checking and recording a dispatch among many live ranges of one buffer."""
    found = {}
    for size in sizes:
        measuring(f"the tracker with {size} ranges")
        memory = Memory(1 << 20, 1 << 30, known=False)
        times = []
        for _ in range(rounds):
            ranges = MemRanges()
            for index in range(size):
                ranges.track([], [(memory, (1 << 20) + 64 * index, (1 << 20) + 64 * index + 32)])
            gaps = range((1 << 20) + 40, (1 << 20) + 40 + 64 * min(size, 100), 64)
            begin = time.perf_counter()
            for at in gaps:
                ranges.track([(memory, at, at + 8)], [(memory, at + 8, at + 16)])
            times.append((time.perf_counter() - begin) / len(gaps))
        found[str(size)] = median(times) * 1e6
    return found


def measure(rounds: int, *, dispatches: int = trace.DISPATCHES, growth: Sequence[int] = GROWTH) -> dict[str, Any]:
    """Everything, in one run."""
    with MlxDevice("soft") as soft:
        devices, work, model = _Devices.on(soft), _trace(dispatches), cache(_model)
        return {
            "trace": _counts(work(soft)[1]),
            "levels": devices.levels(work, rounds),
            "model": {**_counts(model(soft)[1]), "levels": devices.levels(model, rounds)},
            "floor_us": _floor(rounds),
            "peers": peers.encode_times(),
            "growth": _growth(devices.free, rounds, growth),
            "tracker": _tracker(rounds),
        }


def _print_levels(levels: dict[str, dict[str, float]]) -> None:
    print(f"{'level':20}{'messages/dispatch':>19}{'messages/token':>16}{'us, free':>10}{'us, soft':>10}")
    for name, level in levels.items():
        cells = f"{level['messages_per_dispatch']:>19.3f}{level['messages_per_token']:>16}"
        print(f"{name:20}{cells}{level['bookkeeping_us']:>10.3f}{level['soft_us']:>10.3f}")


def _ratios(found: dict[str, Any]) -> dict[str, float]:
    """Ours beside PyOpenCL's call with as many arguments, where that was measured."""
    peer = found["peers"].get("PyOpenCL")
    if not peer:
        return {}
    return {
        "dispatch : PyOpenCL": found["levels"]["eager"]["bookkeeping_us"] / peer,
        "op : PyOpenCL": found["model"]["levels"]["eager"]["bookkeeping_us"] / peer,
    }


def _print(found: dict[str, Any]) -> None:
    print(f"measured on this CPU ({platform.machine()}), medians of one run; says nothing about Apple hardware")
    for name, counts, levels in (
        ("trace", found["trace"], found["levels"]),
        ("decode step through ops", found["model"], found["model"]["levels"]),
    ):
        print(f"{name}: {counts['dispatches']} dispatches, {counts['barriers']} barriers")
        _print_levels(levels)
    print(f"{'three no-op calls':55}{found['floor_us']:>10.3f}")
    for name, us in found["peers"].items():
        print(f"{name:55}" + (f"{us:>10.3f}" if us is not None else "  not installed"))
    for name, ratio in _ratios(found).items():
        print(f"{name:55}{ratio:>10.2f}")
    for level, row in found["growth"].items():
        print(f"{level}, us a dispatch: " + ", ".join(f"{size}: {us:.4f}" for size, us in row.items()))
    print(
        "tracker, us a step by live ranges: " + ", ".join(f"{size}: {us:.2f}" for size, us in found["tracker"].items())
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(prog="mlx-native bench encode", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--rounds", type=int, default=15, help="runs behind each median (default: 15)")
    chosen = parser.parse_args(argv)
    found = measure(chosen.rounds)
    measuring("")
    if chosen.json:
        json.dump(found, sys.stdout, indent=1)
        print()
    else:
        _print(found)
    return 0
