"""Compiles a kernel from its source, runs it, and prints the result, the device and the GPU time."""

import struct
import sys

import numpy as np

from mlx_native_py import open_metal

SOURCE = """
#include <metal_stdlib>
using namespace metal;

kernel void axpy(device const float *x [[buffer(0)]],
                 device float *y [[buffer(1)]],
                 constant float &a [[buffer(2)]],
                 uint i [[thread_position_in_grid]]) {
  y[i] = a * x[i] + y[i];
}
"""
COUNT = 1 << 20


def main() -> int:
    door = open_metal()
    device = door.default_device()
    with door.autorelease_pool():
        library, error = device.newLibraryWithSource_options_error_(SOURCE, None, None)
        if library is None:
            sys.exit(error.localizedDescription())
        pipeline, error = device.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_("axpy"), None)
        if pipeline is None:
            sys.exit(error.localizedDescription())

        buffers = [device.newBufferWithLength_options_(4 * COUNT, 0) for _ in range(2)]
        x, y = (np.frombuffer(b.contents().as_buffer(4 * COUNT), dtype=np.float32) for b in buffers)
        x[:] = np.arange(COUNT)
        y[:] = 1.0

        commands = device.newCommandQueue().commandBuffer()
        encoder = commands.computeCommandEncoder()
        encoder.setComputePipelineState_(pipeline)
        for index, buffer in enumerate(buffers):
            encoder.setBuffer_offset_atIndex_(buffer, 0, index)
        encoder.setBytes_length_atIndex_(struct.pack("<f", 2.0), 4, 2)
        encoder.dispatchThreads_threadsPerThreadgroup_((COUNT, 1, 1), (256, 1, 1))
        encoder.endEncoding()
        commands.commit()
        commands.waitUntilCompleted()
        if commands.error() is not None:
            sys.exit(commands.error().localizedDescription())

        microseconds = (commands.GPUEndTime() - commands.GPUStartTime()) * 1e6
        right = np.array_equal(y, 2.0 * np.arange(COUNT, dtype=np.float32) + 1.0)
        print(f"result    {y[:4]} ... {y[-1]:.0f} ({'right' if right else 'WRONG'})")
        print(f"device    {device.name()} ({door.kind})")
        print(f"GPU time  {microseconds:.0f} us for {COUNT:,} threads")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
