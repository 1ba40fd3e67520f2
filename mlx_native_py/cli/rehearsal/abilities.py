"""What a device can do: memory, bfloat, residency, dispatch times, replay and the cost of encoding."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from ... import settings
from ...device import MlxDevice
from ...profiling import kernel_profile

__all__ = ["ABILITIES"]

_DISPATCHES = 1000
_DROPPED = 16 << 20
_COUNT = """
kernel void count(device uint *x [[buffer(0)]], constant uint &by [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) { x[i] += by; }
"""

Look = Callable[[MlxDevice], tuple[str, Any]]
"""A check: a short result, and details for the report."""


def _memory(device: MlxDevice) -> tuple[str, Any]:
    """The retain self-check: the retain count of a new object, and whether dropped memory is freed."""
    before = device.mtl.currentAllocatedSize()
    with device.backend.autorelease_pool():
        buffer = device.mtl.newBufferWithLength_options_(_DROPPED, device.backend.Metal.MTLResourceStorageModeShared)
        count = buffer.retainCount() if hasattr(buffer, "retainCount") else None
        held = device.mtl.currentAllocatedSize()
        del buffer
    after = device.mtl.currentAllocatedSize()
    if held > before and after >= held:
        raise RuntimeError(f"{held - before} bytes were allocated, dropped, and are still held")
    counted = "" if count is None else f"a new buffer has retain count {count}; "
    told = "what is dropped comes back" if held > before else "the device does not count its memory"
    return f"{counted}{told}", {
        "retain_count": count,
        "before": before,
        "held": held,
        "after": after,
    }


def _counter(device: MlxDevice) -> Any:
    return device.kernels.get_pipeline("count", library=device.kernels.library(_COUNT))


def _bfloat(device: MlxDevice) -> tuple[str, Any]:
    source = "kernel void f(device bfloat *x [[buffer(0)]]) { x[0] = bfloat(float(x[0]) + 1.0f); }"
    library = device.kernels.library(source)
    x = device.buffer([2.0], "bf16")
    with device.command_encoder() as enc:
        enc.dispatch(device.kernels.get_pipeline("f", library=library), x, threads=1)
    if float(x.numpy()[0]) != 3.0:
        raise ArithmeticError(f"2 + 1 in bfloat is {x.numpy()[0]}")
    version = library.options.language
    return f"bfloat runs, compiled as MSL {'.'.join(map(str, version or ('by default',)))}", version


def _residency(device: MlxDevice) -> tuple[str, Any]:
    return (device.residency.reason or f"in use, {device.residency.count} allocations"), device.residency_sets_enabled


def _sampling(device: MlxDevice) -> tuple[str, Any]:
    """Times of single dispatches, and how they were obtained."""
    kernel_profile.reset()
    x = device.alloc_buffer(4096, "u32", 1024)
    with settings.override(profile_cb=True, profile_dispatch=True):
        enc = device.command_encoder()
        for _ in range(3):
            enc.dispatch(_counter(device), x, 1, threads=1024)
        enc.commit_and_wait("rehearsal")
    told = [entry for _, entries in kernel_profile.dump_dispatches() for entry in entries]
    kernel_profile.reset()
    if not told:
        return "none: only whole command buffers are timed", []
    times = ", ".join(f"{entry.gpu_ns / 1e3:.1f}" for entry in told)
    return f"{told[0].provenance.how}: {times} us", [asdict(entry) for entry in told]


def _replay(device: MlxDevice) -> tuple[str, Any]:
    """A plan of ten dependent dispatches, as an indirect command buffer if possible."""
    x = device.alloc_buffer(4096, "u32", 1024)
    with device.capture(x=x) as graph:
        for _ in range(10):
            graph.encoder.dispatch(_counter(device), x, 1, threads=1024)
    plan = graph.plan()
    before = int(x.numpy()[0])
    for _ in range(3):
        plan.run()
    if not np.array_equal(x.numpy(), np.full(1024, before + 30, np.uint32)):
        raise ArithmeticError(f"thirty increments of {before} gave {np.unique(x.numpy())}")
    return (f"right, {plan!r}" if plan.is_indirect else f"right; no indirect commands: {plan.declined}"), repr(plan)


def _encoding(device: MlxDevice) -> tuple[str, Any]:
    """The Python time of a dispatch."""
    x, kernel = device.alloc_buffer(4096, "u32", 1024), _counter(device)
    rounds = []
    for _ in range(3):
        with device.command_encoder() as enc:
            begin = time.perf_counter()
            for _ in range(_DISPATCHES):
                enc.dispatch(kernel, x, 1, threads=1024)
            rounds.append((time.perf_counter() - begin) / _DISPATCHES * 1e6)
    if int(x.numpy()[-1]) != 3 * _DISPATCHES:
        raise ArithmeticError(f"{3 * _DISPATCHES} increments gave {x.numpy()[-1]}")
    return f"{min(rounds):.1f} us a dispatch, the best of {len(rounds)} times {_DISPATCHES}", rounds


ABILITIES: dict[str, Look] = {
    "memory": _memory,
    "bfloat": _bfloat,
    "residency": _residency,
    "dispatch times": _sampling,
    "replay": _replay,
    "encoding": _encoding,
}
"""All of them, in the order of the report."""
