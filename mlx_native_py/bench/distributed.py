"""`mlx-native launch -n 2 bench distributed`: an in-place all_sum compared with mpi4py's own call."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from ..distributed import all_sum, init
from ..distributed.mpi import mpi
from ..shared_device import default_device

__all__ = ["main"]

_CALLS = 20  # calls per measurement; the three alternatives take turns


def main(arguments: Sequence[str]) -> int:
    """Prints the median microseconds of each way, and the ratios."""
    parser = argparse.ArgumentParser(prog="mlx-native bench distributed", description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="measurements of each way (%(default)s)")
    parser.add_argument("--nbytes", type=int, nargs="+", default=[4096, 1 << 20], help="sizes (%(default)s)")
    chosen = parser.parse_args(arguments)
    group = init(strict=True)
    for nbytes in chosen.nbytes:
        times = _measured(nbytes, chosen.rounds, group)
        if group.rank == 0:
            own, array, buffer = times
            print(
                f"{group.size} ranks, {nbytes} bytes: mpi4py {own:.2f} us, all_sum of an array {array:.2f} us "
                f"({array / own:.2f} x), of a buffer {buffer:.2f} us ({buffer / own:.2f} x)",
                flush=True,
            )
    return 0


def _measured(nbytes: int, rounds: int, group: Any) -> list[float]:
    array = np.zeros(max(nbytes // 4, 1), np.float32)
    buffer = default_device().buffer(array)
    in_place = mpi().IN_PLACE
    ways: list[Callable[[], Any]] = [
        lambda: group.comm.Allreduce(in_place, array),
        lambda: all_sum(array, out=array, group=group),
        lambda: all_sum(buffer, out=buffer, group=group),
    ]
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, seconds in zip(ways, times, strict=True):
            start = time.perf_counter()
            for _ in range(_CALLS):
                way()
            seconds.append((time.perf_counter() - start) / _CALLS * 1e6)
    return [median(each) for each in times]
