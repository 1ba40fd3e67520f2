"""`mlx-native bench ops`: speed of ops on the current device, compared with MLX's CPU, numpy and torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import ops
from ..device import MlxDevice
from ..shared_device import default_device
from .harness import Measured, library, measuring, median_seconds, options, report
from .ops_works import WORKS, OpWork

__all__ = ["OpRow", "inputs_on", "main", "measure", "run_work"]


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
    return OpRow(
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


def inputs_on(device: MlxDevice, arrays: list[Any]) -> list[Any]:
    """Arrays as buffers; a list of arrays becomes a list of buffers."""
    return [list(map(device.buffer, each)) if isinstance(each, list) else device.buffer(each) for each in arrays]


def run_work(work: OpWork, device: MlxDevice, inputs: list[Any], again: dict[str, Any], gpu: list[float]) -> Any:
    """Runs a workload once and records the GPU time."""
    enc = device.command_encoder()
    results = getattr(ops, work.op)(enc, *inputs, **work.options, **again)
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
    wait: Callable[[Any], object]


def _peers() -> dict[str, _Peer]:
    peers = {}
    if mx := library("mlx.core"):
        peers["mlx"] = _Peer(mx, mx.array, mx.eval)
    if torch := library("torch"):
        peers["torch"] = _Peer(torch, torch.from_numpy, lambda result: result)
    return peers


def _peer(peer: _Peer | None, work: Callable[..., Any] | None, arrays: list[Any], rounds: int) -> float | None:
    if peer is None or work is None:
        return None
    given = [[peer.array(x) for x in each] if isinstance(each, list) else peer.array(each) for each in arrays]
    return median_seconds(lambda: peer.wait(work(peer.library, *given)), rounds) * 1e3


def measure(device: MlxDevice, rounds: int, only: str = "") -> list[OpRow]:
    """The rows of all workloads whose name or op contains `only`, in one run."""
    peers, rows = _peers(), []
    works = [work for work in WORKS if only in work.name or only == work.op]
    for number, work in enumerate(works, start=1):
        measuring(f"{number} of {len(works)}: {work.name}")
        rows.append(_measure(work, device, peers, rounds))
    return rows


def _columns() -> dict[str, Callable[[OpRow], str | float | None]]:
    def ratio(peer: str) -> Callable[[OpRow], str | None]:
        return lambda row: None if getattr(row, peer) is None else f"{getattr(row, peer) / row.ms:.2f}x"

    return {
        "work": lambda row: row.work,
        "ms": lambda row: row.ms,
        "device ms": lambda row: row.gpu_ms,
        "GB/s": lambda row: row.gb_per_s,
        "GFLOP/s": lambda row: row.gflop_per_s,
        "MLX CPU": ratio("mlx_ms"),
        "numpy": ratio("numpy_ms"),
        "torch": ratio("torch_ms"),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table (or JSON); returns 1 if a bar is missed and `--strict` was given."""
    parser = options("ops", __doc__)
    parser.add_argument("--only", default="", help="works of this op, or with this in their name")
    chosen = parser.parse_args(argv)
    device = default_device()
    title = f"measured on {device.name}, medians of one run; 2.00x: twice as fast as that peer, in the same run"
    return report(chosen, title, measure(device, chosen.rounds, chosen.only), _columns())
