"""`mlx-native bench encode`: Python time and messages per dispatch, compared with other libraries."""

from __future__ import annotations

import gc
import platform
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ..device import MlxDevice
from ..encoder import CommandEncoder
from ..graph import ComputeGraph, Plan
from ..hazards.ranges import Memory
from ..hazards.tracker import MemRanges
from ..profiling.profile import Level, profile
from . import peers, trace
from .decode_step import DecodeStep
from .harness import Measured, measuring, options, report
from .null import counting_device, free_device

__all__ = ["EncodeRow", "main", "measure"]

OPENCL = "PyOpenCL, the same trace"
PROFILED = "dispatch, profiled"
LENGTHS = (100, trace.DISPATCHES, 10_000)
RANGES = (10, 100, 1_000, 10_000)
_WARM_UP = 3  # rounds not counted: they compute launches and generate code

Round = Callable[[], float]
"""Encodes once; returns seconds per dispatch."""
Encode = Callable[[CommandEncoder], object]


@dataclass(frozen=True, kw_only=True)
class EncodeRow(Measured):
    """One way to encode: Python time per dispatch, and messages."""

    name: str
    us: float
    """With almost free messages, unless the name says otherwise."""
    ratio: float | None = None
    """To PyOpenCL's time per dispatch of the same trace."""
    messages: int | None = None
    """To the compute encoder, for all dispatches."""
    dispatches: int = 1


def _round(device: MlxDevice, encode: Encode, dispatches: int, *, runs: bool = True) -> Round:
    """Times encoding alone, without opening and committing the command buffer.

    Committed work completes at once, so that its results are recycled as in a program; `runs=False` is for a device
    that would run the work.
    """

    def once() -> float:
        enc = device.command_encoder()
        begin = time.perf_counter()
        encode(enc)
        taken = time.perf_counter() - begin
        if runs:
            enc.commit_and_wait()
        enc.discard()
        return taken / dispatches

    return once


def _profiled(level: Level, once: Round) -> Round:
    """The same inside a profile."""

    def inside() -> float:
        with profile(level):
            return once()

    return inside


def _messages_alone(device: MlxDevice, plan: Plan, dispatches: int) -> Round:
    """The messages of a replay, and nothing else."""
    enc = device.command_encoder()
    plan.encode(enc)
    mtl = enc.metal_command_buffer().computeCommandEncoderWithDispatchType_(0)
    enc.discard()

    def once() -> float:
        begin = time.perf_counter()
        plan.send(mtl)
        return (time.perf_counter() - begin) / dispatches

    return once


def _no_ops(dispatches: int = trace.DISPATCHES) -> Round:
    """Three C calls that do nothing: a lower bound for a dispatch."""
    empty: dict[int, int] = {}
    call = empty.get

    def once() -> float:
        begin = time.perf_counter()
        for index in range(dispatches):
            call(index)
            call(index, index)
            call(index, index)
        return (time.perf_counter() - begin) / dispatches

    return once


def _tracker(size: int) -> Round:
    """Checks and records a dispatch among many live ranges of one buffer."""
    memory, first = Memory(1 << 20, 1 << 30, known=False), 1 << 20

    def once() -> float:
        ranges = MemRanges()
        for index in range(size):
            ranges.track([], [(memory, first + 64 * index, first + 64 * index + 32)])
        gaps = range(first + 40, first + 40 + 64 * min(size, 100), 64)
        begin = time.perf_counter()
        for at in gaps:
            ranges.track([(memory, at, at + 8)], [(memory, at + 8, at + 16)])
        return (time.perf_counter() - begin) / len(gaps)

    return once


@dataclass(frozen=True)
class _Work:
    """Work to encode, eagerly or as a plan."""

    encode: Encode
    graph: ComputeGraph

    @classmethod
    def trace(cls, device: MlxDevice, dispatches: int) -> _Work:
        calls = trace.calls(device, dispatches)
        return cls(lambda enc: trace.encode(enc, calls), trace.captured(device, calls))

    @classmethod
    def step(cls, device: MlxDevice) -> _Work:
        """A decode step through ops, with 30 layers."""
        step = DecodeStep(device)
        with device.capture(token=step.token) as graph:
            graph.keep(logits=step.encode(graph.encoder))
        return cls(step.encode, graph)

    @property
    def dispatches(self) -> int:
        return self.graph.dispatch_count()


def _rounds(free: MlxDevice, soft: MlxDevice, lengths: Sequence[int]) -> dict[str, Round]:
    """Everything that is timed, by name."""
    step, on_soft = _Work.step(free), _Work.trace(soft, trace.DISPATCHES)
    rounds: dict[str, Round] = {"ops of a decode step": _round(free, step.encode, step.dispatches)}
    for length in lengths:
        work, of = _Work.trace(free, length), f" of {length}" * (length != trace.DISPATCHES)
        if length == trace.DISPATCHES:
            rounds["dispatch"] = plain = _round(free, work.encode, length)
            rounds[PROFILED] = _profiled("cb", plain)
        straight = work.graph.plan(indirect=False)
        rounds[f"replay{of}"] = _round(free, straight.encode, length)
        rounds[f"replay{of}: messages alone"] = _messages_alone(free, straight, length)
        rounds[f"indirect replay{of}"] = _round(free, work.graph.plan(indirect=True).encode, length)
    rounds["dispatch, software device"] = plain = _round(soft, on_soft.encode, on_soft.dispatches, runs=False)
    rounds["dispatch, software device, each one timed"] = _profiled("dispatch", plain)
    rounds["three no-op calls"] = _no_ops()
    rounds |= {f"tracker, {size} live ranges": _tracker(size) for size in RANGES}
    return rounds


def _counts(device: MlxDevice, counts: Counter[str]) -> dict[str, tuple[int, int]]:
    """Messages and dispatches, by name."""
    step, work = _Work.step(device), _Work.trace(device, trace.DISPATCHES)
    ways: dict[str, tuple[_Work, Encode]] = {
        "ops of a decode step": (step, step.encode),
        "dispatch": (work, work.encode),
        "replay": (work, work.graph.plan(indirect=False).encode),
        "indirect replay": (work, work.graph.plan(indirect=True).encode),
    }
    counted = {}
    for name, (of, encode) in ways.items():
        with device.command_encoder() as enc:
            encode(enc)  # once before it counts, since some messages are only sent with first uses
        counts.clear()
        with device.command_encoder() as enc:
            encode(enc)
        counted[name] = counts.total(), of.dispatches
    return counted


def _times(timed: Mapping[str, Round], rounds: int) -> dict[str, list[float]]:
    """Microseconds of every round. All ways alternate, so that other load affects them equally.

    Each turn starts with an untimed run, which restores the caches. Long-lived objects are excluded from garbage
    collection.
    """
    times: dict[str, list[float]] = {name: [] for name in timed}
    gc.collect()
    gc.freeze()
    for number in range(_WARM_UP + rounds):
        measuring(f"round {number + 1} of {_WARM_UP + rounds}")
        for name, once in timed.items():
            once()
            times[name].append(once())
    gc.unfreeze()
    return {name: [each * 1e6 for each in seconds[_WARM_UP:]] for name, seconds in times.items()}


def measure(rounds: int, *, lengths: Sequence[int] = LENGTHS) -> list[EncodeRow]:
    """Everything, in one run."""
    with MlxDevice("soft") as soft:
        free = free_device(soft)
        counted = _counts(*counting_device(soft))
        timed = {**_rounds(free, soft, lengths), **peers.rounds()}
        times = _times(timed, rounds)
    us, least = ({name: of(each) for name, each in times.items()} for of in (median, min))
    rows = []
    for name, taken in us.items():
        messages, dispatches = counted.get(name, (None, 1))
        ratio = taken / us[OPENCL] if OPENCL in us and not name.startswith("tracker") else None
        bar, passed = _bar(name, us, least, ratio, messages, dispatches)
        rows.append(
            EncodeRow(
                name=name, us=taken, ratio=ratio, messages=messages, dispatches=dispatches, bar=bar, passed=passed
            )
        )
    return rows


def _bar(
    name: str,
    us: Mapping[str, float],
    least: Mapping[str, float],
    ratio: float | None,
    messages: int | None,
    dispatches: int,
) -> tuple[str, bool | None]:
    """The limit for a row, and whether it is met; small ratios are compared by the least of all rounds."""
    if name == "dispatch" and ratio is not None and messages is not None:
        return "at most 1.0 x PyOpenCL, 6 messages", ratio <= 1.0 and messages <= 6 * dispatches
    if name == PROFILED:
        return "at most 1.02 x without a profile (least)", least[name] <= 1.02 * least["dispatch"]
    if name == "ops of a decode step" and ratio is not None:
        return "at most 2.5 x PyOpenCL", ratio <= 2.5
    if f"{name}: messages alone" in us:
        return "at most 0.06 us above the messages", us[name] - us[f"{name}: messages alone"] <= 0.06
    if name == "indirect replay" and messages is not None:
        return "at most 10 messages", messages <= 10
    if name == f"tracker, {RANGES[-1]} live ranges":
        return f"at most 1.5 x that of {RANGES[0]}", us[name] <= 1.5 * us[f"tracker, {RANGES[0]} live ranges"]
    return "", None


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table or JSON."""
    parser = options("encode", __doc__)
    chosen = parser.parse_args(argv)
    title = (
        f"{trace.DISPATCHES} dispatches with {trace.BARRIERS} barriers, and a decode step through ops; measured on "
        f"this CPU ({platform.machine()}), medians of {chosen.rounds} rounds; says nothing about Apple hardware"
    )
    return report(
        chosen,
        title,
        measure(chosen.rounds),
        {
            "": lambda row: row.name,
            "us a dispatch": lambda row: f"{row.us:.3f}",
            "x PyOpenCL": lambda row: row.ratio,
            "messages a dispatch": lambda row: None if row.messages is None else row.messages / row.dispatches,
            "messages in all": lambda row: None if row.messages is None else str(row.messages),
        },
    )
