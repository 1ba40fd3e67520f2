"""`mlx-native bench ops`: speed of ops on the current device, compared with MLX's CPU, numpy and torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .. import ops
from ..device import MlxDevice
from ..shared_device import default_device
from .harness import Measured, library, measuring, median_seconds, options, report
from .ops_works import WORKS, OpWork

__all__ = ["OpRow", "inputs_on", "main", "measure", "run_work"]


AT_ONCE = 16
"""Calls before one wait, where the time of a call is measured without its wait."""
_SHORT_MS = 1.0  # longer works are not measured that way: the wait is a small part of them


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


def _measure(work: OpWork, device: MlxDevice, peers: dict[str, Any], rounds: int) -> OpRow:
    arrays = work.arrays()
    inputs = inputs_on(device, arrays)
    gpu: list[float] = []
    results = run_work(work, device, inputs, {}, gpu)
    _check(work, results, work.numpy(*arrays))
    again = {} if isinstance(results, tuple) else {"out": results}
    gpu.clear()
    ms = median_seconds(lambda: run_work(work, device, inputs, again, gpu), rounds) * 1e3
    touched = work.touched or sum(each.nbytes for each in (*_flat(inputs), *_flat(results)))
    mlx, torch = (_peer(peers.get(name), getattr(work, name), arrays, rounds) for name in ("mlx", "torch"))
    numpy = median_seconds(lambda: work.numpy(*arrays), rounds) * 1e3 if work.timed else None
    bar = "faster than MLX CPU" if work.bar else ""
    row = OpRow(
        work.name,
        work.op,
        ms,
        float(np.median(gpu)) * 1e3,
        touched / ms / 1e6,
        work.flops / ms / 1e6 if work.flops else None,
        mlx,
        numpy,
        torch,
        bar=bar,
        passed=None if not bar or mlx is None else ms < mlx,
    )
    if ms > _SHORT_MS:
        return row
    run = partial(run_work, work, device, inputs, again, gpu, AT_ONCE)
    each_ms = median_seconds(run, rounds) * 1e3 / AT_ONCE
    mlx, numpy, torch = _each(work, peers, arrays, rounds)
    return replace(row, each_ms=each_ms, each_mlx_ms=mlx, each_numpy_ms=numpy, each_torch_ms=torch)


def inputs_on(device: MlxDevice, arrays: list[Any]) -> list[Any]:
    """Arrays as buffers; a list of arrays becomes a list of buffers."""
    return [list(map(device.buffer, each)) if isinstance(each, list) else device.buffer(each) for each in arrays]


def _each(work: OpWork, peers: dict[str, Any], arrays: list[Any], rounds: int) -> list[float | None]:
    """Milliseconds a call of MLX, numpy and torch, with one wait for several calls."""
    mlx, torch = (_peer(peers.get(name), getattr(work, name), arrays, rounds, AT_ONCE) for name in ("mlx", "torch"))
    numpy = None
    if work.timed:
        numpy = median_seconds(lambda: _repeat(lambda: work.numpy(*arrays), AT_ONCE), rounds) * 1e3
    return [None if together is None else together / AT_ONCE for together in (mlx, numpy, torch)]


def run_work(
    work: OpWork, device: MlxDevice, inputs: list[Any], again: dict[str, Any], gpu: list[float], times: int = 1
) -> Any:
    """Runs a workload so many times in one command buffer, waits, and records the GPU time."""
    enc = device.command_encoder()
    encode = getattr(ops, work.op)
    for _ in range(times):
        results = encode(enc, *inputs, **work.options, **again)
    begin, end = enc.commit_wait_with_gpu_time()
    gpu.append(end - begin)
    return results


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


def _peer(
    peer: _Peer | None, work: Callable[..., Any] | None, arrays: list[Any], rounds: int, times: int = 1
) -> float | None:
    """Milliseconds of so many calls and one wait."""
    if peer is None or work is None:
        return None
    given = [[peer.array(x) for x in each] if isinstance(each, list) else peer.array(each) for each in arrays]

    def run() -> None:
        if peer.wait is not None:
            peer.wait([work(peer.library, *given) for _ in range(times)])
        else:
            _repeat(lambda: work(peer.library, *given), times)

    return median_seconds(run, rounds) * 1e3


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
