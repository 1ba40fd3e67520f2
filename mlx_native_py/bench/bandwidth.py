"""Read bandwidth of a device from uncached memory, an upper bound for decoding."""

from __future__ import annotations

import time

from ..device import MlxDevice

__all__ = ["read_bandwidth"]

_GROUPS, _WIDTH, _VALUES = 1024, 32, 1 << 15  # threadgroups, threads per threadgroup, values read per threadgroup
_ROUNDS = 15
# Four accumulators, so that additions do not wait for each other.
_SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void add_up(device const float *x, device float *sums, constant uint &count,
                   uint lane [[thread_position_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  device const float *p = x + size_t(group) * count + lane;
  float a = 0, b = 0, c = 0, d = 0;
  for (uint i = 0; i < count; i += 128) a += p[i], b += p[i + 32], c += p[i + 64], d += p[i + 96];
  sums[group * 32 + lane] = a + b + c + d;
}
"""


def read_bandwidth(device: MlxDevice) -> float:
    """Bytes per second of a kernel that sums 128 MiB; the best of a few rounds."""
    add_up = device.compile(_SOURCE).add_up
    numbers, sums = device.full((_GROUPS, _VALUES), 1.0), device.zeros(_GROUPS * _WIDTH)
    best = float("inf")
    for _ in range(_ROUNDS + 1):
        with device.command_encoder() as enc:
            add_up(numbers, sums, _VALUES, threads=sums.size, group=_WIDTH, encoder=enc)
            begin = time.perf_counter()
            enc.commit_and_wait(label="read bandwidth")
            best = min(best, time.perf_counter() - begin)
    return numbers.nbytes / best
