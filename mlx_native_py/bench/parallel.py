"""`mlx-native launch -n 2 bench parallel`: a model on several ranks, compared with one process and predictions."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import settings
from ..device import MlxDevice
from ..distributed import Group, all_sum, barrier, init
from ..models import load_model, model_path
from ..models.loading import OpenedModel, open_model
from ..ops import add
from ..parallel import load_pipeline_parallel, load_tensor_parallel
from ..parallel.host_steps import HostSteps
from ..parallel.time_model import Machine, calibrated, estimate
from .bandwidth import read_bandwidth
from .harness import Measured, options, report

__all__ = ["Configuration", "main", "measure"]

_PROMPT = [1, 2, 3, 4, 5]
_SUMS = 60
_WARM, _STEPS = 4, 12  # steps per turn of a configuration; the first are not timed
_SHORT, _LONG = 3, 13  # tokens per sequence; the difference excludes start and end
_LINK_VALUES = 1 << 20
_LEAST, _FURTHEST = 0.8, 0.25
Step = Callable[[], object]


@dataclass(frozen=True)
class Configuration(Measured):
    """A way to run the model: seconds per token, measured and predicted."""

    way: str
    token: float
    """The median."""
    least: float
    """The minimum, least disturbed by other load."""
    predicted: float | None = None
    """From the minimum times of one process and of exchanges alone."""


def measure(name: str, rounds: int, group: Group) -> list[Configuration]:
    """All configurations alternate; times are those of rank 0."""
    own = _own_cores()
    cores = set().union(*group.gather_objects(own))
    threads = max(1, len(cores) // group.size)
    path = model_path(name)
    with settings.override(soft_threads=threads):
        device = MlxDevice()
    with settings.override(soft_threads=threads * group.size):
        all_cores = MlxDevice()
    whole, pipeline = load_model(path, device), load_pipeline_parallel(path, device, group=group)
    alone = partial(_only_first, group)
    ways: dict[str, Step] = {
        f"one process, {threads * group.size} threads": alone(_steps(load_model(path, all_cores))),
        f"one process, {threads} threads": alone(_steps(whole)),
        f"{group.size} processes, each a whole model": _steps(whole),
        f"{group.size} ranks, tensor": _steps(load_tensor_parallel(path, device, group=group)),
        f"{group.size} ranks, pipeline": _steps(pipeline),
        "a few tokens in flight": _micro_batches(pipeline, group.size, _SHORT),
        "many tokens in flight": _micro_batches(pipeline, group.size, _LONG),
        "an exchange": _exchanges(device, group),
        "a large sum": partial(all_sum, np.zeros(_LINK_VALUES, np.float32), group=group),
    }
    all_cores_way, *_ = ways
    barrier(group=group)
    at_once = read_bandwidth(device)
    barrier(group=group)
    speeds = at_once, read_bandwidth(device) if group.rank == 0 else at_once
    times = _in_turns(ways, rounds, group, lambda way: _place(cores if way == all_cores_way else own))
    seconds = {way: (statistics.median(each), min(each)) for way, each in times.items()}
    few, many = seconds.pop("a few tokens in flight"), seconds.pop("many tokens in flight")
    median, least = ((b - a) / (_LONG - _SHORT) / group.size for a, b in zip(few, many, strict=True))
    seconds[f"{group.size} ranks, pipeline, {group.size} in flight"] = median, least
    return _rows(open_model(path), group, seconds, speeds)


def _rows(
    opened: OpenedModel, group: Group, seconds: dict[str, tuple[float, float]], speeds: tuple[float, float]
) -> list[Configuration]:
    """Three configurations with predictions, after those that the predictions come from.

    `speeds` are bandwidths with all ranks reading at once, and with one alone.
    """
    best, n = {way: least for way, (_, least) in seconds.items()}, group.size
    all_cores, one, together, tensor_way, pipeline_way, exchange, sums, flight_way = seconds
    link, latency = _LINK_VALUES * 4 / best[sums], best[exchange] / _SUMS
    busy, idle = (
        calibrated(opened, Machine(speed, link, latency), best[way])
        for speed, way in zip(speeds, (together, one), strict=True)
    )
    tensor, pipeline = estimate(opened, n, "tensor", busy), estimate(opened, n, "pipeline", idle)
    in_flight = estimate(opened, n, "pipeline", busy).between
    rows = [Configuration(way, *seconds[way]) for way in (all_cores, one, together)]
    predictions = {tensor_way: tensor.token, pipeline_way: pipeline.token, flight_way: in_flight}
    for way, predicted in predictions.items():
        token, least = seconds[way]
        close, quick = abs(predicted / least - 1) <= _FURTHEST, seconds[all_cores][0] / token
        bar, passed = f"prediction within {_FURTHEST:.0%}", close
        if way == tensor_way:
            bar, passed = f"{bar}, {quick:.2f} x of {all_cores}, at least {_LEAST}", close and quick >= _LEAST
        rows.append(Configuration(way, token, least, predicted, bar=bar, passed=passed))
    return rows


def _own_cores() -> set[int]:
    """The cores bound to this rank by the launcher, or all."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _place(cores: set[int]) -> None:
    """Sets the CPU affinity of all threads of this process, including kernel workers."""
    if hasattr(os, "sched_setaffinity"):
        for task in Path("/proc/self/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cores)


def _in_turns(
    ways: dict[str, Step], rounds: int, group: Group, place: Callable[[str], object]
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 1):
        for way, step in ways.items():
            place(way)
            for number in range(_STEPS):
                barrier(group=group)
                begin = time.perf_counter()
                step()
                # The first steps compile pipelines and wake idle threads.
                if turn and number >= _WARM:
                    times[way].append(time.perf_counter() - begin)
    return times


def _only_first(group: Group, step: Step) -> Step:
    """Runs a step on rank 0 only; the others wait at the next barrier."""
    return step if group.rank == 0 else lambda: None


def _steps(model: Any) -> Step:
    """A decode step, restarted before the sequence gets long."""
    state: list[Any] = []

    def step() -> object:
        if not state or state[1] > 200:
            decoder = model.make_decoder(model.make_cache())
            decoder.prefill([_PROMPT])
            state[:] = [decoder, 0]
        state[1] += 1
        return state[0].step()

    return step


def _micro_batches(model: Any, batch: int, tokens: int) -> Step:
    """Generates so many tokens of as many sequences."""
    decoders: list[Any] = []

    def step() -> object:
        if not decoders or decoders[0].cache.micro_batches[0].lengths[0] > 200:
            decoders[:] = [model.make_decoder(model.make_cache(batch=batch))]
        return decoders[0].sequences([_PROMPT] * batch, [tokens] * batch, ())

    return step


def _exchanges(device: MlxDevice, group: Group) -> Step:
    """Sums of 4 bytes in a row, with almost no computation between them."""
    steps = HostSteps()
    x = device.buffer(np.zeros(1, np.float32))
    with device.capture(x=x) as graph:
        y = x
        for _ in range(_SUMS):
            y = add(graph.encoder, y, x)
            steps.add(graph.encoder, partial(all_sum, y, out=y, group=group), y)
    return steps.plan(graph, "exchange").run


_COLUMNS: dict[str, Callable[[Configuration], str | float | None]] = {
    "way": lambda row: row.way,
    "token ms": lambda row: row.token * 1e3,
    "least ms": lambda row: row.least * 1e3,
    "tokens/s": lambda row: 1 / row.token,
    "predicted ms": lambda row: None if row.predicted is None else row.predicted * 1e3,
    "predicted/least": lambda row: None if row.predicted is None else row.predicted / row.least,
}


def main(arguments: Sequence[str]) -> int:
    """Prints the table on rank 0."""
    parser = options("parallel", __doc__)
    parser.add_argument("--model", default="smollm2", help="a path, an alias or a name on the hub (default: smollm2)")
    chosen = parser.parse_args(arguments)
    group = init(strict=True)
    rows = measure(chosen.model, chosen.rounds, group)
    if group.rank:
        return 0
    return report(chosen, f"decode of {chosen.model} over {group.size} ranks of this machine, greedy", rows, _COLUMNS)
