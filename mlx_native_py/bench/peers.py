"""What other libraries take to encode a tiny dispatch from Python, where they are installed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

__all__ = ["encode_times"]

COUNT = 1000
ROUNDS = 9


def encode_times() -> dict[str, float | None]:
    """Microseconds a dispatch, by library; None where it is missing, with a line on stderr that says why."""
    found: dict[str, float | None] = {}
    for name, work in (
        ("wgpu-py", _wgpu),
        ("PyOpenCL", _pyopencl),
        ("MLX lazy build", _mlx),
        ("torch eager", _torch),
    ):
        try:
            found[name] = work() / COUNT * 1e6
        except Exception as reason:  # a driver may fail in its own way, and the others still count
            print(f"{name}: not measured: {type(reason).__name__}: {reason}", file=sys.stderr)
            found[name] = None
    return found


def _median(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return median(times)


def _wgpu() -> float:
    import wgpu

    adapter = wgpu.gpu.request_adapter_sync()
    device = adapter.request_device_sync()
    buffer = device.create_buffer(size=256, usage=wgpu.BufferUsage.STORAGE)
    shader = device.create_shader_module(
        code="@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
        "@compute @workgroup_size(32) fn main(@builtin(global_invocation_id) i: vec3<u32>) { x[i.x] += 1.0; }"
    )
    pipeline = device.create_compute_pipeline(layout="auto", compute={"module": shader, "entry_point": "main"})
    entry = {"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": 256}}
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=[entry])

    def encode() -> None:
        commands = device.create_command_encoder()
        opened = commands.begin_compute_pass()
        for _ in range(COUNT):
            opened.set_pipeline(pipeline)
            opened.set_bind_group(0, group)
            opened.dispatch_workgroups(1)
        opened.end()
        commands.finish()

    return _median(encode)


def _pyopencl() -> float:
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    # Three buffers and a number, as most dispatches of the trace have.
    source = """kernel void mean_of(global const float *a, global const float *b, global float *out, uint n) {
        uint i = get_global_id(0); if (i < n) out[i] = 0.5f * (a[i] + b[i]); }"""
    kernel = cl.Kernel(cl.Program(context, source).build(), "mean_of")
    kernel.set_scalar_arg_dtypes([None, None, None, np.uint32])
    a, b, out = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 256) for _ in range(3))
    times = []
    for _ in range(ROUNDS):
        gate = cl.UserEvent(context)
        cl.enqueue_barrier(queue, wait_for=[gate])
        begin = time.perf_counter()
        for _ in range(COUNT):
            kernel(queue, (32,), (32,), a, b, out, 32)
        times.append(time.perf_counter() - begin)
        gate.set_status(cl.command_execution_status.COMPLETE)
        queue.finish()
    return median(times)


def _mlx() -> float:
    import mlx.core as mx

    a, b = mx.ones(32), mx.ones(32)
    mx.eval(a, b)

    def build() -> None:
        value = a
        for _ in range(COUNT):
            value = value + b

    return _median(build)


def _torch() -> float:
    import torch

    a, out = torch.ones(32), torch.ones(32)

    def run() -> None:
        for _ in range(COUNT):
            torch.mul(a, a, out=out)

    return _median(run)
