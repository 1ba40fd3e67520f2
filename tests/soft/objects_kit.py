"""Kernels and shorthands that the tests of the Metal objects share."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlx_native_py import softmetal as Metal

SOURCE = """
#include <metal_stdlib>
using namespace metal;
constant float scale [[function_constant(0)]];
constant bool twice [[function_constant(1)]];
constant bool has_extra [[function_constant(2)]];

kernel void add(device const float* a [[buffer(0)]], device float* b [[buffer(1)]], constant float& k [[buffer(2)]],
                uint i [[thread_position_in_grid]]) { b[i] = a[i] + k; }
kernel void count(device atomic_uint* n [[buffer(0)]]) { atomic_fetch_add_explicit(n, 1u, memory_order_relaxed); }
kernel void note(device uint* log [[buffer(0)]], constant uint& name [[buffer(1)]]) {
  log[1 + log[0]] = name;
  log[0] += 1;
}
kernel void scaled(device float* b [[buffer(0)]], device const float* extra [[buffer(1), function_constant(has_extra)]],
                   uint i [[thread_position_in_grid]]) {
  b[i] *= twice ? scale * 2.0f : scale;
  if (has_extra) b[i] += extra[i];
}
kernel void shared_sum(device const uint* a [[buffer(0)]], device uint* out [[buffer(1)]],
                       threadgroup uint* part [[threadgroup(0)]],
                       uint i [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup uint mine[4];
  part[i] = a[i];
  if (i < 4) mine[i] = i;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) { uint s = 0; for (uint j = 0; j < n; j++) s += part[j]; out[0] = s + mine[3]; }
}
kernel void vectors(device float4* b [[buffer(0)]], uint i [[thread_position_in_grid]]) { b[i] = float4(i); }
kernel void pointers(constant ulong* table [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  device float* target = (device float*)table[0];
  target[i] = 7.0f;
}
kernel void far(device uint* b [[buffer(0)]]) { b[1 << 30] = 1; }
kernel void divided(device int* b [[buffer(0)]]) { b[0] = b[1] / b[2]; }
kernel void endless(device volatile uint* b [[buffer(0)]]) { while (b[0] == 0) { b[1] += 1; } }
kernel void large(device uint* b [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
  threadgroup uint room[9216];
  room[i] = i; threadgroup_barrier(mem_flags::mem_threadgroup); b[i] = room[i];
}
[[max_total_threads_per_threadgroup(64)]] kernel void narrow(device uint* b [[buffer(0)]]) { b[0] = 1; }
"""


@cache
def default_device() -> Any:
    return Metal.MTLCreateSystemDefaultDevice()


@cache
def library(device: Any) -> Any:
    opened, error = device.newLibraryWithSource_options_error_(SOURCE, None, None)
    assert opened is not None, error
    return opened


@cache
def pipeline(name: str, device: Any = None, indirect: bool = False) -> Any:
    mtl = device or default_device()
    descriptor = Metal.MTLComputePipelineDescriptor.alloc().init()
    descriptor.setComputeFunction_(library(mtl).newFunctionWithName_(name))
    descriptor.setSupportIndirectCommandBuffers_(indirect)
    state, _, error = mtl.newComputePipelineStateWithDescriptor_options_reflection_error_(descriptor, 0, None, None)
    assert state is not None, error
    return state


def buffer(values: Any, device: Any = None) -> Any:
    data = np.ascontiguousarray(values)
    return (device or default_device()).newBufferWithBytes_length_options_(data, data.nbytes, 0)


def array(mtl: Any, dtype: Any = np.float32) -> NDArray[Any]:
    return np.frombuffer(mtl.contents().as_buffer(mtl.length()), dtype)


def encode_add(encoder: Any, source: Any, target: Any, k: float, count: int, device: Any = None) -> None:
    encoder.setComputePipelineState_(pipeline("add", device))
    encoder.setBuffer_offset_atIndex_(source, 0, 0)
    encoder.setBuffer_offset_atIndex_(target, 0, 1)
    encoder.setBytes_length_atIndex_(struct.pack("<f", k), 4, 2)
    encoder.dispatchThreads_threadsPerThreadgroup_((count, 1, 1), (32, 1, 1))


def encode_note(encoder: Any, log: Any, name: int, device: Any = None) -> None:
    encoder.setComputePipelineState_(pipeline("note", device))
    encoder.setBuffer_offset_atIndex_(log, 0, 0)
    encoder.setBytes_length_atIndex_(struct.pack("<I", name), 4, 1)
    encoder.dispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))


def finish(command_buffer: Any) -> None:
    command_buffer.commit()
    command_buffer.waitUntilCompleted()


def endless(queue: Any, stop: Any, device: Any = None) -> Any:
    """A committed command buffer that runs until `stop[0]` is set."""
    command_buffer = queue.commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    encoder.setComputePipelineState_(pipeline("endless", device))
    encoder.setBuffer_offset_atIndex_(stop, 0, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
    encoder.endEncoding()
    command_buffer.commit()
    return command_buffer
