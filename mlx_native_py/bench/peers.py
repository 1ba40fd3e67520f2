"""Encoding times of other libraries for a tiny dispatch, if they are installed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..device import MlxDevice
from . import trace
from .null import free_device

__all__ = ["rounds"]

COUNT = 1000
Round = Callable[[], float]


def rounds() -> dict[str, Round]:
    """Encode functions by library, returning seconds per dispatch; prints to stderr which are missing and why."""
    ready: dict[str, Round] = {}
    for name, prepare in (
        ("PyOpenCL, the same trace", _pyopencl),
        ("wgpu-py, one buffer", _wgpu),
        ("MLX, lazy build of an addition", _mlx),
        ("torch, eager product", _torch),
    ):
        try:
            ready[name] = prepare()
        except Exception as reason:  # a driver may fail in its own way, and the others still count
            print(f"{name}: not measured: {type(reason).__name__}: {reason}", file=sys.stderr)
    return ready


def _timed(work: Callable[[], Any], count: int) -> Round:
    def once() -> float:
        begin = time.perf_counter()
        work()
        return (time.perf_counter() - begin) / count

    return once


def _pyopencl() -> Round:
    """The kernels, buffers and numbers of the trace, through kernels with declared argument types."""
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    calls = _opencl_calls(cl, context)

    def once() -> float:
        gate = cl.UserEvent(context)  # holds the work back, so that only encoding is timed
        cl.enqueue_barrier(queue, wait_for=[gate])
        begin = time.perf_counter()
        for call in calls:
            call.pipeline(queue, (trace.SIZE,), (trace.SIZE,), *call.reads, call.out, call.number)
        taken = time.perf_counter() - begin
        gate.set_status(cl.command_execution_status.COMPLETE)
        queue.finish()
        return taken / len(calls)

    return once


def _opencl_calls(cl: Any, context: Any) -> list[Any]:
    """The trace with OpenCL kernels and buffers."""
    with MlxDevice("soft") as device:
        ours = trace.calls(free_device(device))
    program = cl.Program(context, _OPENCL).build()
    kernels: dict[str, Any] = {}
    buffers: dict[Any, Any] = {}
    for call in ours:
        kernel = kernels.setdefault(call.pipeline.name, cl.Kernel(program, call.pipeline.name))
        kernel.set_scalar_arg_dtypes([*(None for _ in call.reads), None, np.uint32])
        for buffer in (*call.reads, call.out):
            buffers.setdefault(buffer, cl.Buffer(context, cl.mem_flags.READ_WRITE, buffer.nbytes))
    return [
        trace.TracedCall(
            kernels[call.pipeline.name], tuple(map(buffers.__getitem__, call.reads)), buffers[call.out], call.number
        )
        for call in ours
    ]


_TWO = "kernel void step_{}(global const float *a, global const float *b, global float *out, uint n)"
_THREE = _TWO.replace("global float *out", "global const float *c, global float *out")
_BODY = " {{ uint i = get_global_id(0); if (i < n) out[i] = 0.5f * ({}); }}\n"
_OPENCL = "".join(
    (_THREE if index % 2 else _TWO).format(index) + _BODY.format("a[i] + b[i] + c[i]" if index % 2 else "a[i] + b[i]")
    for index in range(trace.KERNELS)
)


def _wgpu() -> Round:
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

    return _timed(encode, COUNT)


def _mlx() -> Round:
    import mlx.core as mx

    a, b = mx.ones(32), mx.ones(32)
    mx.eval(a, b)

    def build() -> None:
        value = a
        for _ in range(COUNT):
            value = value + b

    return _timed(build, COUNT)


def _torch() -> Round:
    import torch

    a, out = torch.ones(32), torch.ones(32)

    def run() -> None:
        for _ in range(COUNT):
            torch.mul(a, a, out=out)

    return _timed(run, COUNT)
