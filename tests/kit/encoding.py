"""Kernels, devices with chosen abilities, and a recorder of messages, for the encoder's tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from mlx_native_py import MlxDevice, softmetal
from mlx_native_py.metal import open_metal

SOURCE = """
#include <metal_stdlib>
using namespace metal;
struct Shape { uint rows; float scale; };
constant uint N [[function_constant(3)]];
constant bool FLIP [[function_constant(1)]];

kernel void axpy(device const float *x [[buffer(0)]], device float *y [[buffer(1)]], constant float &a [[buffer(2)]],
                 uint i [[thread_position_in_grid]]) { y[i] = a * x[i] + y[i]; }
kernel void add(device const float *a [[buffer(0)]], device const float *b [[buffer(1)]],
                device float *out [[buffer(2)]], uint i [[thread_position_in_grid]]) { out[i] = a[i] + b[i]; }
kernel void fill(device float *out [[buffer(0)]], constant float &value [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) { out[i] = value; }
kernel void total(device const float *in [[buffer(0)]], device float *out [[buffer(1)]],
                  threadgroup float *part [[threadgroup(0)]], uint i [[thread_position_in_threadgroup]],
                  uint n [[threads_per_threadgroup]]) {
  part[i] = in[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) { float sum = 0; for (uint j = 0; j < n; j++) sum += part[j]; out[0] = sum; }
}
kernel void gap(device uint *out [[buffer(0)]], constant uint3 &v [[buffer(2)]], constant Shape &s [[buffer(3)]]) {
  out[0] = v.x + v.y + v.z + s.rows; }
kernel void kinds(device uint *out [[buffer(0)]], constant bool &b [[buffer(1)]], constant half &h [[buffer(2)]],
                  constant short &s [[buffer(3)]], constant ulong &u [[buffer(4)]], constant bfloat &f [[buffer(5)]],
                  constant packed_float3 &p [[buffer(6)]], constant int2 &t [[buffer(7)]]) {
  out[0] = b; out[1] = uint(float(h) * 2.0f); out[2] = uint(int(s) + 100); out[3] = uint(u >> 32);
  out[4] = uint(float(f)); out[5] = uint(p.x + p.y + p.z); out[6] = uint(t.x + t.y);
}
kernel void wide(device float4 *b [[buffer(0)]], uint i [[thread_position_in_grid]]) { b[i] = float4(i); }
kernel void long_table(constant float *t [[buffer(0)]], device float *out [[buffer(1)]],
                       uint i [[thread_position_in_grid]]) { out[i] = t[i]; }
kernel void special(device uint *out [[buffer(0)]]) { out[0] = FLIP ? N : 1000 + N; }
[[max_total_threads_per_threadgroup(48)]] kernel void narrow_group(device uint *out [[buffer(0)]],
                  uint i [[thread_position_in_grid]], uint n [[threads_per_threadgroup]]) { if (i == 0) out[0] = n; }
kernel void far(device uint *b [[buffer(0)]]) { b[1 << 30] = 1; }
kernel void endless(device volatile uint *b [[buffer(0)]]) { while (b[0] == 0) { b[1] += 1; } }
kernel void nothing() {}
"""


class Namespace:
    """Software Metal whose default device has a profile of its own."""

    def __init__(self, profile: softmetal.DeviceProfile, options: softmetal.SoftOptions) -> None:
        self._device = softmetal.open_device(options, profile)

    def __getattr__(self, name: str) -> Any:
        return getattr(softmetal, name)

    def MTLCreateSystemDefaultDevice(self) -> Any:
        return self._device


def soft_device(profile: softmetal.DeviceProfile | None = None, **options: Any) -> MlxDevice:
    """A device with these abilities."""
    namespace = Namespace(profile or softmetal.DeviceProfile(), softmetal.SoftOptions(**options))
    return MlxDevice(replace(open_metal("soft"), Metal=namespace))


def sampling(*points: int, counter_sets: bool = True) -> softmetal.DeviceProfile:
    return softmetal.DeviceProfile(counter_sampling=frozenset(points), counter_sets=counter_sets)


STAGE = softmetal.MTLCounterSamplingPointAtStageBoundary
DISPATCH = softmetal.MTLCounterSamplingPointAtDispatchBoundary


def pipeline(device: MlxDevice, name: str, **more: Any) -> Any:
    if not device.kernels.source_count() or "encoder_kit" not in device.kernels._sources:
        device.kernels.register_source("encoder_kit", SOURCE)
    return device.kernels.get_pipeline(name, **more)


def floats(device: MlxDevice, *values: float) -> Any:
    return device.buffer(np.array(values, np.float32))


class Recording:
    """Stands before a Metal object and writes down each message; encoders and command buffers are recorded too."""

    def __init__(self, target: Any, log: list[tuple[str, tuple[Any, ...]]]) -> None:
        self._target = target
        self._log = log

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        def send(*arguments: Any) -> Any:
            self._log.append((name, arguments))
            result = method(*arguments)
            return (
                Recording(result, self._log) if type(result).__name__.endswith(("Encoder", "CommandBuffer")) else result
            )

        return send


def record(device: MlxDevice) -> list[tuple[str, tuple[Any, ...]]]:
    """The messages that the device's queue, command buffers and encoders get from now on."""
    log: list[tuple[str, tuple[Any, ...]]] = []
    device.queue = Recording(device.queue, log)
    return log


def names(log: Iterable[tuple[str, tuple[Any, ...]]]) -> list[str]:
    return [name for name, _ in log]
