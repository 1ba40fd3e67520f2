"""`mlx-native bench ops`: speed of ops on the current device, compared with MLX's CPU, numpy and torch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .. import ops
from ..device import MlxDevice
from ..encoder.ticket import Ticket
from ..pipelines.pipeline import Pipeline
from ..shared_device import default_device
from .harness import Measured, library, measuring, medians_in_turns, options, report
from .ops_works import WORKS, OpWork

__all__ = ["OpRow", "inputs_on", "main", "measure", "run_work"]


AT_ONCE = 16
"""Calls before one wait, where the time of a call is measured without its wait."""
_WARM_SECONDS = 60.0
_SHORT_MS = 1.0  # longer works are not measured that way: the wait is a small part of them


_Way = Callable[[int], object]  # makes so many calls and waits for them


@dataclass(frozen=True)
class OpRow(Measured):
    """One workload, times in milliseconds; None for a peer that is missing or lacks the function."""

    work: str
    op: str
    ms: float
    """Wall time from encoding to the end of the wait."""
    gpu_ms: float
    gb_per_s: float
    gflop_per_s: float | None
    mlx_ms: float | None
    numpy_ms: float | None
    torch_ms: float | None
    each_ms: float | None = None
    """Of `AT_ONCE` calls in one command buffer; the same for the others, with one wait at the end."""
    each_mlx_ms: float | None = None
    each_numpy_ms: float | None = None
    each_torch_ms: float | None = None


def _measure(work: OpWork, device: MlxDevice, peers: dict[str, _Peer], rounds: int) -> OpRow:
    arrays = work.arrays()
    inputs = inputs_on(device, arrays)
    results = run_work(work, device, inputs, {})[0]
    _check(work, results, work.numpy(*arrays))
    again = {} if isinstance(results, tuple) else {"out": results}
    tickets: deque[Ticket] = deque(maxlen=rounds)

    def ours(times: int) -> None:
        tickets.append(run_work(work, device, inputs, again, times)[1])

    _warm(lambda: ours(1), tickets)
    others = _others(work, peers, arrays)
    alone = _milliseconds({"ours": ours, **others}, rounds)
    gpu_ms = float(np.median([ticket.gpu_time for ticket in tickets])) * 1e3
    touched = work.touched or sum(each.nbytes for each in (*_flat(inputs), *_flat(results)))
    row = _row(work, alone, gpu_ms, touched)
    if row.ms > _SHORT_MS:
        return row
    each = _milliseconds({"ours": ours, **others}, rounds, AT_ONCE)
    mlx, numpy, torch = (each.get(name) for name in ("mlx", "numpy", "torch"))
    return replace(row, each_ms=each["ours"], each_mlx_ms=mlx, each_numpy_ms=numpy, each_torch_ms=torch)


def _warm(call: Callable[[], object], tickets: Sequence[Ticket]) -> None:
    """Calls until the device runs code that it will keep: the software device compiles while other code runs."""
    end = time.monotonic() + _WARM_SECONDS
    call()
    while time.monotonic() < end and not all(_is_final(each.pipeline) for each in tickets[-1].dispatches):
        call()


def _is_final(pipeline: Pipeline) -> bool:
    settled = getattr(pipeline.mtl, "soft_settled", None)
    return settled is None or bool(settled())


def _row(work: OpWork, alone: dict[str, float], gpu_ms: float, touched: int) -> OpRow:
    ms, mlx = alone["ours"], alone.get("mlx")
    bar = "faster than MLX CPU" if work.bar else ""
    return OpRow(
        work.name,
        work.op,
        ms,
        gpu_ms,
        touched / ms / 1e6,
        work.flops / ms / 1e6 if work.flops else None,
        mlx,
        alone.get("numpy"),
        alone.get("torch"),
        bar=bar,
        passed=None if not bar or mlx is None else ms < mlx,
    )


def _milliseconds(ways: dict[str, _Way], rounds: int, times: int = 1) -> dict[str, float]:
    """Milliseconds a call, of so many calls before each wait."""
    medians = medians_in_turns({name: partial(way, times) for name, way in ways.items()}, rounds)
    return {name: seconds * 1e3 / times for name, seconds in medians.items()}


def inputs_on(device: MlxDevice, arrays: list[Any]) -> list[Any]:
    """Arrays as buffers; a list of arrays becomes a list of buffers."""
    return [list(map(device.buffer, each)) if isinstance(each, list) else device.buffer(each) for each in arrays]


def run_work(
    work: OpWork, device: MlxDevice, inputs: list[Any], again: dict[str, Any], times: int = 1
) -> tuple[Any, Ticket]:
    """Runs a workload so many times in one command buffer and waits; returns the last results, and the ticket."""
    enc = device.command_encoder()
    encode = getattr(ops, work.op)
    for _ in range(times):
        results = encode(enc, *inputs, **work.options, **again)
    enc.commit_and_wait()
    return results, enc.ticket


def _check(work: OpWork, results: Any, expected: Any) -> None:
    """Raises on a wrong result."""
    for result, wanted in zip(_flat(results), _flat(expected), strict=False):
        ours, theirs = result.numpy().astype(np.float64), np.asarray(wanted).astype(np.float64)
        wrong = ours.shape != theirs.shape
        if wrong or not np.max(np.abs(ours - theirs)) <= work.tolerance * np.max(np.abs(theirs)):
            raise SystemExit(f"{work.name}: wrong result; a wrong kernel has no speed")


def _flat(values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return [each for value in values for each in _flat(value)]
    return [values]


@dataclass(frozen=True)
class _Peer:
    """Another library: its arrays, and how to wait for its results."""

    library: Any
    array: Callable[[Any], Any]
    wait: Callable[[Any], object] | None = None


def _peers() -> dict[str, _Peer]:
    peers = {}
    if mx := library("mlx.core"):
        peers["mlx"] = _Peer(mx, mx.array, mx.eval)
    if torch := library("torch"):
        peers["torch"] = _Peer(torch, torch.from_numpy)
    return peers


def _others(work: OpWork, peers: dict[str, _Peer], arrays: list[Any]) -> dict[str, _Way]:
    """How the other libraries run the workload, of those that have it."""
    ways = {name: _way(peer, way, arrays) for name, peer in peers.items() if (way := getattr(work, name)) is not None}
    if work.timed:
        ways["numpy"] = lambda times: _repeat(lambda: work.numpy(*arrays), times)
    return ways


def _way(peer: _Peer, work: Callable[..., Any], arrays: list[Any]) -> _Way:
    """So many calls and one wait."""
    given = [[peer.array(x) for x in each] if isinstance(each, list) else peer.array(each) for each in arrays]
    wait = peer.wait
    if wait is None:
        return lambda times: _repeat(lambda: work(peer.library, *given), times)
    return lambda times: wait([work(peer.library, *given) for _ in range(times)])


def _repeat(work: Callable[[], object], times: int) -> None:
    """Each result is dropped before the next is made, so that its memory serves again."""
    for _ in range(times):
        work()


def measure(device: MlxDevice, rounds: int, only: str = "") -> list[OpRow]:
    """The rows of all workloads whose name or op contains `only`, in one run."""
    peers, rows = _peers(), []
    works = [work for work in WORKS if only in work.name or only == work.op]
    for number, work in enumerate(works, start=1):
        measuring(f"{number} of {len(works)}: {work.name}")
        rows.append(_measure(work, device, peers, rounds))
    return rows


def _columns() -> dict[str, Callable[[OpRow], str | float | None]]:
    def ratio(peer: str, own: str = "ms") -> Callable[[OpRow], str | None]:
        return lambda row: None if getattr(row, peer) is None else f"{getattr(row, peer) / getattr(row, own):.2f}x"

    return {
        "work": lambda row: row.work,
        "ms": lambda row: row.ms,
        "device ms": lambda row: row.gpu_ms,
        "GB/s": lambda row: row.gb_per_s,
        "GFLOP/s": lambda row: row.gflop_per_s,
        "MLX CPU": ratio("mlx_ms"),
        "numpy": ratio("numpy_ms"),
        "torch": ratio("torch_ms"),
        f"{AT_ONCE}: ms": lambda row: None if row.each_ms is None else f"{row.each_ms:.3f}",
        f"{AT_ONCE}: MLX CPU": ratio("each_mlx_ms", "each_ms"),
        f"{AT_ONCE}: numpy": ratio("each_numpy_ms", "each_ms"),
        f"{AT_ONCE}: torch": ratio("each_torch_ms", "each_ms"),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table (or JSON); returns 1 if a bar is missed and `--strict` was given."""
    parser = options("ops", __doc__)
    parser.add_argument("--only", default="", help="works of this op, or with this in their name")
    chosen = parser.parse_args(argv)
    device = default_device()
    title = (
        f"measured on {device.name}, medians of one run; 2.00x: twice as fast as that peer, in the same run; columns "
        f"with {AT_ONCE}: are of one call where all wait once for {AT_ONCE} calls"
    )
    return report(chosen, title, measure(device, chosen.rounds, chosen.only), _columns())
