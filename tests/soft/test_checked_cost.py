"""Checked mode costs at most twenty times what fibers cost without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal

ROWS, COLUMNS, GROUP = 256, 2048, 512
LIMIT = 20
SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void rms_norm(device const float* x [[buffer(0)]], device const float* w [[buffer(1)]],
                     device float* y [[buffer(2)]],
                     constant uint& n [[buffer(3)]], uint g [[threadgroup_position_in_grid]],
                     uint t [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                     uint s [[simdgroup_index_in_threadgroup]], uint count [[threads_per_threadgroup]]) {
  threadgroup float part[32];
  threadgroup float scale;
  device const float* row = x + g * n;
  float sum = 0;
  for (uint i = t; i < n; i += count) sum += row[i] * row[i];
  sum = simd_sum(sum);
  if (s == 0) part[lane] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0) part[s] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (s == 0) {
    sum = simd_sum(part[lane]);
    if (lane == 0) scale = rsqrt(sum / n + 1e-5f);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = t; i < n; i += count) y[g * n + i] = row[i] * scale * w[i];
}
"""


def _buffer(device: Any, array: Any) -> Any:
    buffer = device.newBufferWithLength_options_(array.nbytes, 0)
    buffer.contents().as_buffer(array.nbytes)[:] = array.tobytes()
    return buffer


def _seconds(options: softmetal.SoftOptions) -> float:
    device = softmetal.open_device(options)
    library, error = device.newLibraryWithSource_options_error_(SOURCE, None, None)
    assert library is not None, error
    state, error = device.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_("rms_norm"), None)
    assert state is not None, error
    x = np.random.default_rng(0).random(ROWS * COLUMNS, np.float32)
    buffers = [_buffer(device, array) for array in (x, np.ones(COLUMNS, np.float32), np.zeros_like(x))]
    best = float("inf")
    for _ in range(5):
        commands = device.newCommandQueue().commandBuffer()
        encoder = commands.computeCommandEncoder()
        encoder.setComputePipelineState_(state)
        for slot, buffer in enumerate(buffers):
            encoder.setBuffer_offset_atIndex_(buffer, 0, slot)
        encoder.setBytes_length_atIndex_(np.uint32(COLUMNS).tobytes(), 4, 3)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_((ROWS, 1, 1), (GROUP, 1, 1))
        encoder.endEncoding()
        commands.commit()
        commands.waitUntilCompleted()
        best = min(best, commands.GPUEndTime() - commands.GPUStartTime())
    return best


@pytest.mark.full
def test_the_price_of_checking() -> None:
    plain = _seconds(softmetal.SoftOptions(engine="fibers"))
    checked = _seconds(softmetal.SoftOptions(checked=True))
    assert checked <= LIMIT * plain, f"{checked / plain:.1f} times slower"
