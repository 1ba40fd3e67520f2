"""How fast the device reads memory that is in no cache: what a decode step can at best do with its weights."""

from __future__ import annotations

import time

from ..device import MlxDevice
from ..ops import row_sum

__all__ = ["read_bandwidth"]

_ROWS, _COLUMNS = 4096, 8192
_ROUNDS = 5


def read_bandwidth(device: MlxDevice) -> float:
    """Bytes per second of a kernel that adds up 128 MiB; the best of a few rounds."""
    numbers = device.full((_ROWS, _COLUMNS), 1.0)
    best = float("inf")
    for _ in range(_ROUNDS + 1):
        with device.command_encoder() as enc:
            row_sum(enc, numbers)
            begin = time.perf_counter()
            enc.commit_and_wait(label="read bandwidth")
            best = min(best, time.perf_counter() - begin)
    return numbers.nbytes / best
