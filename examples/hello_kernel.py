"""Compiles a kernel from its source, runs it, and prints the result, the device and the GPU time."""

import sys

import numpy as np

from mlx_native_py import MlxDevice

SOURCE = """
#include <metal_stdlib>
using namespace metal;

kernel void axpy(device const float *x, device float *y, constant float &a, uint i [[thread_position_in_grid]]) {
  y[i] = a * x[i] + y[i];
}
"""
COUNT = 1 << 20


def main() -> int:
    with MlxDevice() as device:
        lib = device.compile(SOURCE)
        x = device.buffer(np.arange(COUNT, dtype=np.float32))
        y = device.empty(COUNT).fill(1.0)

        ticket = lib.axpy(x, y, 2.0)

        result = y.numpy()
        right = np.array_equal(result, 2.0 * np.arange(COUNT, dtype=np.float32) + 1.0)
        print(f"result    {result[:4]} ... {result[-1]:.0f} ({'right' if right else 'WRONG'})")
        print(f"device    {device.name} ({device.backend.kind})")
        print(f"GPU time  {ticket.gpu_time * 1e6:.0f} us for {COUNT:,} threads")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
