"""`mlx-native bench calls`: latency of synchronous calls of a tiny kernel, compared with PyOpenCL on PoCL."""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from statistics import median
from typing import Any

import numpy as np

from .. import fn
from ..calls.fast import metal_kernel
from ..device import MlxDevice
from . import pocl
from .harness import Measured, measuring, options, report

__all__ = ["CallRow", "main", "measure"]

SIZE = 1024
LARGE = 1 << 22
_CALLS, _TURNS = 20, 20  # each call is timed; turns are short, so that a busy moment affects all alternatives
_WARM_UP = 1  # rounds not counted

POCL = "PyOpenCL + PoCL, enqueue and finish"
BUFFERS = "lib.k(buffer)"
ARRAYS = "lib.k(ndarray)"
ADD = "fn.add(ndarray, ndarray)"
METAL_KERNEL = "fast.metal_kernel(ndarray)"
COPIES = "copies of arrays, 16 MiB each"
_BARS = {BUFFERS: (POCL, 2.0), ARRAYS: (POCL, 3.0), ADD: (POCL, 4.0), METAL_KERNEL: (ARRAYS, 1.5)}

Call = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class CallRow(Measured):
    """One way to call a kernel: its time and ratio."""

    name: str
    us: float
    ratio: float | None = None
    """To PyOpenCL's time; for the copies, to memcpy's."""


def _ways(device: MlxDevice) -> dict[str, Call]:
    """An addition in each way, with unaligned arrays."""
    a, b, out = (_unaligned(SIZE) for _ in range(3))
    lib = device.compile(resources.files(__package__).joinpath("soft.metal").read_text())
    buffers = [device.buffer(each) for each in (a, b, out)]
    body = "uint i = thread_position_in_grid.x; out[i] = a[i] + b[i];"
    add = metal_kernel("bench_add", ["a", "b"], ["out"], body)
    sizes: dict[str, Any] = {"grid": (SIZE, 1, 1), "threadgroup": (256, 1, 1), "output_shapes": [(SIZE,)]}
    return {
        BUFFERS: lambda: lib.add(*buffers),
        ARRAYS: lambda: lib.add(a, b, out),
        ADD: lambda: fn.add(a, b, stream=device),
        METAL_KERNEL: lambda: add(inputs=[a, b], output_dtypes=[np.float32], stream=device, **sizes),
    }


def _unaligned(size: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.ones(size + 4096, np.float32)[1 : size + 1]


def _times(ways: dict[str, Call], rounds: int) -> dict[str, float]:
    """Medians over all calls, in microseconds; the ways alternate, so that other load affects them equally."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    gc.collect()
    gc.freeze()
    for number in range(_WARM_UP + rounds):
        measuring(f"round {number + 1} of {_WARM_UP + rounds}")
        for name, call in list(ways.items()) * _TURNS:
            taken = [_seconds(call) for _ in range(_CALLS)]
            times[name] += taken if number >= _WARM_UP else ()
    gc.unfreeze()
    return {name: median(each) * 1e6 for name, each in times.items()}


def _seconds(call: Call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _copies(device: MlxDevice, rounds: int) -> CallRow:
    """The extra time of a call with large arrays over one with buffers: three copies in, one out."""
    arrays = [_unaligned(LARGE) for _ in range(3)]
    buffers, targets = [device.buffer(each) for each in arrays], [_unaligned(LARGE) for _ in range(3)]
    lib = device.compile(resources.files(__package__).joinpath("soft.metal").read_text())
    ways: dict[str, Call] = {
        "arrays": lambda: lib.add(*arrays),
        "buffers": lambda: lib.add(*buffers),
        "memcpy": lambda: list(map(np.copyto, (*targets, arrays[0]), (*arrays, targets[0]))),
    }
    measuring(COPIES)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for name, call in list(ways.items()) * (2 * rounds + 1):
        taken[name].append(_seconds(call))
    us = {name: median(each[1:]) * 1e6 for name, each in taken.items()}
    extra = us["arrays"] - us["buffers"]
    ratio = extra / us["memcpy"]
    return CallRow(name=COPIES, us=extra, ratio=ratio, bar="at most 1.5 x memcpy", passed=ratio <= 1.5)


def measure(rounds: int) -> list[CallRow]:
    """All rows, in one run."""
    peer = pocl.open_pocl()
    with MlxDevice("soft") as device:
        ways = _ways(device)
        us = _times({POCL: peer.adding(SIZE), **ways} if peer is not None else ways, rounds)
        return [*(_row(name, us) for name in us), _copies(device, rounds)]


def _row(name: str, us: dict[str, float]) -> CallRow:
    ratio = us[name] / us[POCL] if POCL in us else None
    other, times = _BARS.get(name, (name, 0.0))
    if not times or other not in us:
        return CallRow(name=name, us=us[name], ratio=ratio)
    passed = us[name] <= times * us[other]
    return CallRow(name=name, us=us[name], ratio=ratio, bar=f"at most {times:g} x {other}", passed=passed)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table or JSON."""
    chosen = options("calls", __doc__).parse_args(argv)
    title = (
        f"one addition of {SIZE} numbers, called and waited for; measured on this CPU ({platform.machine()}), medians "
        f"of {_CALLS * _TURNS * chosen.rounds} calls; says nothing about Apple hardware"
    )
    columns = {"": lambda row: row.name, "us a call": lambda row: f"{row.us:.1f}", "x its peer": lambda row: row.ratio}
    return report(chosen, title, measure(chosen.rounds), columns)
