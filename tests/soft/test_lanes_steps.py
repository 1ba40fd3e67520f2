"""What decides how many steps a kernel takes, as the pass finds out: whoever waits may run what cannot take longer."""

from __future__ import annotations

import threading
import time
from _thread import interrupt_main
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal

from .lanes_kit import device, pipeline

GROUP = (64, 1, 1)
ARGUMENTS = (
    "device float *out [[buffer(0)]], device const uint *x [[buffer(1)]], constant uint &n [[buffer(2)]], "
    "constant uint *more [[buffer(3)]], uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]]"
)
CASES = {
    "no-loop": ("out[i] = float(x[i]);", ()),
    "a-constant-count": ("float s = 0; for (uint j = 0; j < 100; j++) s += float(x[j * 64 + i % 64]); out[i] = s;", ()),
    "an-argument": ("float s = 0; for (uint j = l; j < n; j += 64) s += float(x[j]); out[i] = s;", (2,)),
    "two-arguments": ("float s = 0; for (uint j = l; j < n; j += more[1]) s += float(x[j]); out[i] = s;", (2, 3)),
    "a-choice-between-numbers": (
        "uint end = n > 7 ? more[0] : 5; float s = 0; for (uint j = 0; j < end; j++) s += float(x[j]); out[i] = s;",
        (2, 3),
    ),
    "only-what-is-added": (
        "float s = 0; for (uint j = 0; j < n; j++) if (x[j] > 3) s += float(x[j] * 3); out[i] = s;",
        (2,),
    ),
    "a-bound-in-a-buffer": ("float s = 0; for (uint j = 0; j < x[0]; j++) s += float(j * i); out[i] = s;", (1,)),
    "an-end-that-is-found": ("uint j = 0; while (j < n && x[j] != 7) j += 1; out[i] = float(j);", (1, 2)),
    "a-loop-behind-data": (
        "float s = 0; if (x[i] > 3) for (uint j = 0; j < n; j++) s = s * 2 + float(x[j]); out[i] = s;",
        (1, 2),
    ),
    "a-count-behind-data": (
        "uint end = 1; if (x[i] > 3) { end = n; out[i] = 7; } float s = 0;"
        "for (uint j = 0; j < end; j++) s = s * 2 + float(x[j]); out[i] = s;",
        (1, 2),
    ),
    "a-pointer-that-goes-on": (
        "device const uint *p = x; while (*p != 7) p += 1; out[i] = float(p - x);",
        None,
    ),
    "two-pointers": (
        "float s = 0; for (device const uint *p = x, *end = x + 8; p != (device const uint *)out; ++p) s += float(*p);"
        "out[i] = s;",
        None,
    ),
    "an-address": (
        "float s = 0; for (ulong j = 0; j < (ulong)x % 512; j++) s = s * 2 + float(x[j]); out[i] = s;",
        None,
    ),
    "threadgroup-memory": (
        "threadgroup uint end[1]; if (l == 0) end[0] = n; threadgroup_barrier(mem_flags::mem_threadgroup);"
        "float s = 0; for (uint j = 0; j < end[0]; j++) s = s * 2 + float(x[j]); out[i] = s;",
        None,
    ),
    "what-lanes-tell-each-other": (
        "float s = 0; for (uint j = 0; j < simd_sum(n); j++) s = s * 2 + float(x[j]); out[i] = s;",
        None,
    ),
}


CALLS = {
    "a-loop-out-of-line": (
        "__attribute__((noinline)) uint spin(device const uint *x, uint j) { while (x[j & 63] != 7) ++j; return j; }",
        "out[i] = float(spin(x, i));",
        None,
    ),
    "a-straight-call-out-of-line": (
        "__attribute__((noinline)) uint pick(device const uint *x, uint j) { return x[j & 63] ^ j; }",
        "float s = 0; for (uint j = 0; j < n; j++) s += float(pick(x, i)); out[i] = s;",
        (2,),
    ),
    "recursion": (
        "uint deep(device const uint *x, uint j) { return x[j] > 3 ? deep(x, j + 1) * 3 + deep(x, j + 2) : j; }",
        "out[i] = float(deep(x, i));",
        None,
    ),
}


def kernel_of(body: str, on: Any = None, before: str = "") -> Any:
    return pipeline(f"{before}\nkernel void k({ARGUMENTS}) {{ {body} }}", on or device("lanes"))


@pytest.mark.parametrize(("body", "expected"), CASES.values(), ids=CASES)
def test_slots_that_decide_about_loops(body: str, expected: tuple[int, ...] | None) -> None:
    code = kernel_of(body).state.code.lanes.choose(GROUP, 64)
    assert code.decided_by == expected


@pytest.mark.parametrize(("before", "body", "expected"), CALLS.values(), ids=CALLS)
def test_loops_of_functions_that_are_called(before: str, body: str, expected: tuple[int, ...] | None) -> None:
    code = kernel_of(body, before=before).state.code.lanes.choose(GROUP, 64)
    assert code.decided_by == expected


def summing(queue: Any, kernel: Any, bind_count: Callable[[Any], None]) -> None:
    on = kernel.device()
    commands = queue.commandBuffer()
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(kernel)
    for slot, length in enumerate((256, 25600)):
        encoder.setBuffer_offset_atIndex_(on.newBufferWithLength_options_(length, 0), 0, slot)
    bind_count(encoder)
    encoder.setBytes_length_atIndex_(bytes(8), 8, 3)
    encoder.dispatchThreads_threadsPerThreadgroup_(GROUP, GROUP)
    encoder.endEncoding()
    commands.commit()
    commands.waitUntilCompleted()
    assert commands.status() == Metal.MTLCommandBufferStatusCompleted


def in_bytes(count: int) -> Callable[[Any], None]:
    return lambda encoder: encoder.setBytes_length_atIndex_(np.uint32(count).tobytes(), 4, 2)


def in_buffer(encoder: Any) -> None:
    buffer = encoder.device().newBufferWithLength_options_(4, 0)
    buffer.contents().as_buffer(4)[:] = np.uint32(640).tobytes()
    encoder.setBuffer_offset_atIndex_(buffer, 0, 2)


@pytest.mark.parametrize(
    ("case", "bind_count", "is_direct"),
    [
        ("an-argument", in_bytes(640), True),
        ("an-argument", in_buffer, False),
        ("an-end-that-is-found", in_bytes(640), False),
        ("threadgroup-memory", in_bytes(640), False),
    ],
)
def test_a_waiting_thread_runs_loops_of_which_the_end_is_known(
    case: str, bind_count: Callable[[Any], None], is_direct: bool, performed: list[int]
) -> None:
    kernel = kernel_of(CASES[case][0])
    assert kernel.state.code.has_loops
    queue = device("lanes").newCommandQueue()
    for _ in range(50):
        summing(queue, kernel, bind_count)
    assert (len(performed) < 50) is is_direct  # on a busy machine the queue's thread may come first
    assert threading.get_ident() not in performed


def test_other_bytes_are_another_count(performed: list[int]) -> None:
    """Of which nobody knows yet whether it ends soon; the thread of the queue runs it first."""
    kernel = kernel_of(CASES["an-argument"][0])
    queue = device("lanes").newCommandQueue()
    for count in range(1, 31):
        summing(queue, kernel, in_bytes(count))
    assert len(performed) == 30


def test_ctrl_c_is_heard_while_a_loop_runs_that_was_short_before() -> None:
    """With the same arguments, but for the step, which is 0: it never ends."""
    on = device("lanes", watchdog_seconds=1.0)
    kernel = kernel_of("float s = 0; for (uint j = 0; j < n; j += more[0]) s += float(x[j % 64]); out[i] = s;", on)
    queue = on.newCommandQueue()

    def committed(step: int) -> Any:
        commands = queue.commandBuffer()
        encoder = commands.computeCommandEncoder()
        encoder.setComputePipelineState_(kernel)
        for slot in (0, 1):
            encoder.setBuffer_offset_atIndex_(on.newBufferWithLength_options_(25600, 0), 0, slot)
        encoder.setBytes_length_atIndex_(np.uint32(640).tobytes(), 4, 2)
        encoder.setBytes_length_atIndex_(np.array([step, 0], np.uint32).tobytes(), 8, 3)
        encoder.dispatchThreads_threadsPerThreadgroup_(GROUP, GROUP)
        encoder.endEncoding()
        commands.commit()
        return commands

    for _ in range(20):
        committed(1).waitUntilCompleted()
    commands = committed(0)
    timer = threading.Timer(0.1, interrupt_main)
    begin = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        commands.waitUntilCompleted()
    assert time.monotonic() - begin < 0.6
    timer.join()
    commands.waitUntilCompleted()
    assert "timeout" in commands.error().localizedDescription()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("kernel void k(device uint *x) { x[0] = 1; }", False),
        ("uint f(uint a) { return a + 1; } kernel void k(device uint *x) { x[0] = f(f(x[0])); }", False),
        ("kernel void k(device uint *x) { while (x[0] != 1) x[0] /= 2; }", True),
        (
            "uint f(uint a) { return a < 2 ? a : f(a - 1) + f(a - 2); }"
            "kernel void k(device uint *x) { x[0] = f(x[0]); }",
            True,
        ),
        (
            "uint g(uint a); uint f(uint a) { return a < 2 ? a : g(a - 1) * 3; } uint g(uint a) { return f(a + 1); }"
            "kernel void k(device uint *x) { x[0] = f(x[0]); }",
            True,
        ),
    ],
)
def test_functions_that_call_themselves_count_as_loops(source: str, expected: bool) -> None:
    assert pipeline(source, device("lanes")).state.code.has_loops == expected
