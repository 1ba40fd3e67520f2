"""`mlx-native bench ops`: what ops cost on the present device, beside MLX's CPU, numpy and torch in the same run."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .. import ops
from ..default_device import default_device
from ..device import MlxDevice
from .ops_works import WORKS, Work
from .rig import median_seconds

__all__ = ["Row", "main", "measure"]


@dataclass(frozen=True)
class Row:
    """One measured work, times in milliseconds; a peer that is missing, or has no such function, is None."""

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
    bar: str
    passed: bool | None


def _measure(work: Work, device: MlxDevice, peers: dict[str, Any], rounds: int) -> Row:
    arrays = work.arrays()
    inputs = [
        [device.buffer(each) for each in given] if isinstance(given, list) else device.buffer(given) for given in arrays
    ]
    gpu: list[float] = []
    found = _run(work, device, inputs, {}, gpu)
    _check(work, found, work.numpy(*arrays))
    again = {} if isinstance(found, tuple) else {"out": found}
    gpu.clear()
    ms = median_seconds(lambda: _run(work, device, inputs, again, gpu), rounds) * 1e3
    touched = work.touched or sum(each.nbytes for each in (*_flat(inputs), *_flat(found)))
    mlx, torch = (_peer(peers.get(name), getattr(work, name), arrays, rounds) for name in ("mlx", "torch"))
    numpy = median_seconds(lambda: work.numpy(*arrays), rounds) * 1e3 if work.timed else None
    bar = "faster than MLX CPU" if work.bar else ""
    return Row(
        work.name,
        work.op,
        ms,
        float(np.median(gpu)) * 1e3,
        touched / ms / 1e6,
        work.flops / ms / 1e6 if work.flops else None,
        mlx,
        numpy,
        torch,
        bar,
        None if not bar or mlx is None else ms < mlx,
    )


def _run(work: Work, device: MlxDevice, inputs: list[Any], again: dict[str, Any], gpu: list[float]) -> Any:
    enc = device.command_encoder()
    found = getattr(ops, work.op)(enc, *inputs, **work.options, **again)
    begin, end = enc.commit_wait_with_gpu_time()
    gpu.append(end - begin)
    return found


def _check(work: Work, found: Any, expected: Any) -> None:
    """A wrong kernel has no speed."""
    for got, wanted in zip(_flat(found), _flat(expected), strict=False):
        ours, theirs = got.numpy().astype(np.float64), np.asarray(wanted).astype(np.float64)
        wrong = ours.shape != theirs.shape
        if wrong or not np.max(np.abs(ours - theirs)) <= work.tolerance * np.max(np.abs(theirs)):
            raise SystemExit(f"{work.name}: wrong result; a wrong kernel has no speed")


def _flat(values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return [each for value in values for each in _flat(value)]
    return [values]


@dataclass(frozen=True)
class _Peer:
    """Another library: itself, its arrays, and how to wait for one of its results."""

    library: Any
    array: Callable[[Any], Any]
    wait: Callable[[Any], object]


def _peers() -> dict[str, _Peer]:
    found = {}
    if mx := _library("mlx.core"):
        mx.set_default_device(mx.cpu)
        found["mlx"] = _Peer(mx, mx.array, mx.eval)
    if torch := _library("torch"):
        found["torch"] = _Peer(torch, torch.from_numpy, lambda result: result)
    return found


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _peer(peer: _Peer | None, work: Callable[..., Any] | None, arrays: list[Any], rounds: int) -> float | None:
    if peer is None or work is None:
        return None
    given = [[peer.array(x) for x in each] if isinstance(each, list) else peer.array(each) for each in arrays]
    return median_seconds(lambda: peer.wait(work(peer.library, *given)), rounds) * 1e3


def measure(device: MlxDevice, rounds: int, only: str = "") -> list[Row]:
    """The rows of all works whose name or op contains `only`, in one run."""
    peers = _peers()
    return [_measure(work, device, peers, rounds) for work in WORKS if only in work.name or only == work.op]


def _print(device: MlxDevice, rows: Sequence[Row]) -> None:
    def cell(value: float | None, digits: int = 2) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    def ratio(row: Row, peer: float | None) -> str:
        return "-" if peer is None else f"{peer / row.ms:.2f}x"

    print(f"measured on {device.name}, medians of one run; 2.00x: twice as fast as that peer, in the same run")
    print(f"{'work':32}{'ms':>9}{'GB/s':>8}{'GFLOP/s':>9}{'MLX CPU':>10}{'numpy':>9}{'torch':>9}  bar")
    for row in rows:
        verdict = "" if row.passed is None else (": met" if row.passed else ": NOT MET")
        peers = [ratio(row, peer) for peer in (row.mlx_ms, row.numpy_ms, row.torch_ms)]
        figures = f"{row.ms:9.2f}{row.gb_per_s:8.2f}{cell(row.gflop_per_s):>9}"
        print(f"{row.work:32}{figures}{peers[0]:>10}{peers[1]:>9}{peers[2]:>9}  {row.bar}{verdict}".rstrip())


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table (or JSON); returns 1 where a bar is not met and `--strict` was given."""
    parser = argparse.ArgumentParser(prog="mlx-native bench ops", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="runs behind each median (default: 7)")
    parser.add_argument("--only", default="", help="works of this op, or with this in their name")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a bar is not met")
    chosen = parser.parse_args(argv)
    device = default_device()
    rows = measure(device, chosen.rounds, chosen.only)
    if chosen.json:
        json.dump(
            {"device": device.name, "how": "measured", "rows": [asdict(row) for row in rows]}, sys.stdout, indent=1
        )
        print()
    else:
        _print(device, rows)
    return int(chosen.strict and any(row.passed is False for row in rows))
