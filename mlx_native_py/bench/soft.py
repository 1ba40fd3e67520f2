"""`mlx-native bench soft`: the software device's engines, compared with numpy, MLX's CPU and PoCL."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import settings
from ..device import MlxDevice
from ..encoder import Ticket
from . import pocl, works
from .harness import Measured, library, measuring, median_seconds, options, report
from .works import KernelWork

__all__ = ["EngineRow", "main", "measure"]

_F32 = NDArray[np.float32]
Launched = partial[Ticket]
"""A kernel with its arguments and launch size."""
_WARM_SECONDS = 5.0  # time for the device to choose an engine
_COLUMNS = {"soft": "soft", "lanes": "lanes", "fibers": "fibers", "numpy": "numpy", "mlx": "MLX CPU", "pocl": "PoCL"}


@dataclass(frozen=True)
class EngineRow(Measured):
    """One workload: the default engine, each engine by itself, peers in the same unit, and the bar."""

    work: str
    unit: str
    soft: float | None
    lanes: float | None = None
    fibers: float | None = None
    numpy: float | None = None
    mlx: float | None = None
    pocl: float | None = None
    gflops: float | None = None  # of the device as it chooses


def _close(name: str, result: _F32, expected: _F32, tolerance: float = 1e-4) -> None:
    error = float(np.max(np.abs(result - expected)) / np.max(np.abs(expected)))
    if not error <= tolerance:
        raise SystemExit(f"{name}: wrong result, relative error {error:.2e}; a wrong kernel has no speed")


class _Bench:
    """The engines and peers of one run."""

    def __init__(self, rounds: int, *, peers: bool = True, checked: bool = False) -> None:
        self.rounds = rounds
        self.mlx: Any = library("mlx.core") if peers else None
        self.pocl = pocl.open_pocl() if peers else None
        self.source = resources.files(__package__).joinpath("soft.metal").read_text()
        engines = ("auto", "lanes", "fibers")
        self.devices = {engine: _device(soft_engine=engine, soft_checked=checked) for engine in engines}

    def launch(self, device: MlxDevice, name: str, *arguments: Any, **sizes: Any) -> Launched:
        """A kernel with its arguments, arrays as buffers."""
        given = [device.buffer(each) if isinstance(each, np.ndarray) else each for each in arguments]
        return partial(device.compile(self.source)[name], *given, **sizes)

    def soft(self, work: KernelWork, engine: str) -> float:
        """Milliseconds on an engine, after checking the result."""
        launch = self.launch(self.devices[engine], work.kernel, *work.arguments, threads=work.threads, group=work.group)
        launch()
        expected = work.numpy()
        _close(f"{work.kernel} on {engine}", launch.args[work.output].numpy().reshape(expected.shape), expected)
        if engine == "auto":
            _warm(launch)
        return _median(launch, self.rounds) * 1e3

    def peer(self, work: KernelWork) -> float | None:
        """Milliseconds on PoCL, after checking the result."""
        ran = self.pocl.run(work, self.rounds) if self.pocl is not None else None
        if ran is None:
            return None
        expected = work.numpy()
        _close(f"{work.kernel} on PoCL", ran[1].reshape(expected.shape), expected)
        return ran[0]

    def row(
        self, work: KernelWork, bar: str = "", passed: Callable[[EngineRow], bool | None] | None = None
    ) -> EngineRow:
        measuring(work.title)
        times = {engine: self.soft(work, engine) for engine in self.devices}
        evaluate = work.mlx(self.mlx) if self.mlx is not None else None
        row = EngineRow(
            work.title,
            "ms",
            times["auto"],
            times["lanes"],
            times["fibers"],
            median_seconds(work.numpy, self.rounds) * 1e3,
            median_seconds(lambda: self.mlx.eval(evaluate()), self.rounds) * 1e3 if evaluate else None,
            self.peer(work),
            work.flops / times["auto"] / 1e6 if work.flops else None,
            bar=bar,
        )
        return replace(row, passed=passed(row) if passed else None)


def _device(**changes: Any) -> MlxDevice:
    """A software device with other settings."""
    with settings.override(**changes):
        return MlxDevice("soft")


def _median(launch: Launched, rounds: int) -> float:
    """The median GPU time, after a warm-up."""
    launch()
    return statistics.median(launch().gpu_time for _ in range(rounds))


def _warm(launch: Launched) -> None:
    """Runs until background compilation has finished."""
    end = time.monotonic() + _WARM_SECONDS
    kernel: Any = launch.func
    while time.monotonic() < end and not kernel.pipeline.mtl.soft_settled():
        launch()


def _beats(*peers: str, times: float = 1.0) -> Callable[[EngineRow], bool | None]:
    """Whether the device is this many times as fast as each peer; None if one is missing."""

    def passed(row: EngineRow) -> bool | None:
        times_of_peers = [getattr(row, peer) for peer in peers]
        if row.soft is None or None in times_of_peers:
            return None
        return all(row.soft * times <= value for value in times_of_peers)

    return passed


def _rate(least: float) -> Callable[[EngineRow], bool | None]:
    return lambda row: row.gflops >= least if row.gflops is not None else None


def _all(*rules: Callable[[EngineRow], bool | None]) -> Callable[[EngineRow], bool | None]:
    def passed(row: EngineRow) -> bool | None:
        verdicts = [rule(row) for rule in rules]
        return False if False in verdicts else None if None in verdicts else True

    return passed


def _has_avx512() -> bool:
    try:
        return " avx512f " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def _bench_works(bench: _Bench) -> list[EngineRow]:
    norm = "8 x fibers, faster than numpy and MLX"
    fast = _all(_beats("fibers", times=8.0), _beats("numpy", "mlx"))
    quick = ">= 2 x MLX CPU, >= 15 GFLOP/s on AVX-512" if _has_avx512() else ">= 2 x MLX CPU"
    return [
        bench.row(works.add(), "at least numpy's speed", _beats("numpy")),
        bench.row(works.rms_norm(), norm, fast),
        bench.row(works.softmax(), norm, fast),
        bench.row(works.matmul(), ">= 2 x MLX CPU, >= 20 GFLOP/s", _all(_beats("mlx", times=2.0), _rate(20.0))),
        bench.row(works.tiled_matmul(), ">= 20 GFLOP/s", _rate(20.0)),
        bench.row(works.q4_matvec(), quick, _all(_beats("mlx", times=2.0), *([_rate(15.0)] if _has_avx512() else []))),
    ]


def _bench_waits(bench: _Bench) -> list[EngineRow]:
    """The cost of one barrier per thread, over all threads of a core's threadgroups."""
    rows = []
    devices = {engine: _device(soft_threads=1, soft_engine=engine) for engine in ("fibers", "lanes")}
    for name, work, limit in (("rendezvous", "simd rendezvous", 12.0), ("barrier", "threadgroup barrier", 20.0)):
        measuring(work)
        prices = {engine: _wait_ns(bench, device, name) for engine, device in devices.items()}
        ns = prices["fibers"]
        bar = f"fibers <= {limit:g} ns"
        rows.append(EngineRow(work, "ns/lane", None, lanes=prices["lanes"], fibers=ns, bar=bar, passed=ns <= limit))
    return rows


def _wait_ns(bench: _Bench, device: MlxDevice, name: str, threads: int = 4096) -> float:
    """The cost of one barrier per thread on one core, from the slope between two counts."""
    out, few, many = np.zeros(threads, np.uint32 if name == "barrier" else np.float32), 50, 450
    times = [
        _median(bench.launch(device, name, out, waits, threads=threads, group=256), bench.rounds)
        for waits in (few, many)
    ]
    return (times[1] - times[0]) / (many - few) / threads * 1e9


def _bench_scaling(bench: _Bench) -> list[EngineRow]:
    """Speed-up from one core to two, for compute-bound work."""
    rows = []
    x = np.random.default_rng(0).standard_normal(1 << 18, dtype=np.float32)
    for engine, bar in (("flat", 1.6), ("lanes", 1.7)):
        measuring(f"1 to 2 cores, {engine}")
        times = []
        for threads in (1, 2):
            device = _device(soft_threads=threads, soft_engine=engine)
            launch = bench.launch(device, "polynomial", x, x, 400, threads=x.size, group=256)
            times.append(_median(launch, bench.rounds))
        gain = times[0] / times[1]
        rows.append(EngineRow(f"1 to 2 cores, {engine}", "x", gain, bar=f">= {bar}", passed=gain >= bar))
    return rows


def measure(rounds: int) -> list[EngineRow]:
    """All rows, in one run."""
    bench = _Bench(rounds)
    rows = _bench_works(bench)
    slower = [row.work for row in rows if row.soft and row.fibers and row.soft > 1.1 * row.fibers]
    worst = max(row.soft / row.fibers for row in rows if row.soft and row.fibers)
    honest = EngineRow("slowest against fibers", "x", worst, bar="<= 1.1", passed=not slower)
    return [*rows, honest, *_bench_waits(bench), *_bench_scaling(bench)]


def _columns() -> dict[str, Callable[[EngineRow], str | float | None]]:
    figures = {**_COLUMNS, "gflops": "GFLOP/s"}
    return {
        "work": lambda row: row.work,
        "unit": lambda row: row.unit,
        **{title: attrgetter(name) for name, title in figures.items()},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table (or JSON); returns 1 if a bar is missed and `--strict` was given."""
    chosen = options("soft", __doc__).parse_args(argv)
    title = f"measured on this CPU ({platform.machine()}), medians of one run; says nothing about Apple hardware"
    return report(chosen, title, measure(chosen.rounds), _columns())
