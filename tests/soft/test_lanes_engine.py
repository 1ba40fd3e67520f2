"""The lanes engine from outside: which kernels it runs, with the results and the faults of the fiber engine."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from . import lanes_kit as kit

SUM = """kernel void k(device const float *x, device float *out, uint i [[thread_position_in_grid]],
  uint t [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]],
  uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float part[32];
  float sum = simd_sum(x[i]);
  if (lane == 0) part[simd] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float all = 0.0f;
  for (uint s = 0; s < simds; s++) all += part[s];
  out[i] = all + float(t);
}"""
WHERE = """kernel void k(device uint *out, uint3 at [[thread_position_in_grid]],
  uint3 t [[thread_position_in_threadgroup]], uint3 g [[threadgroup_position_in_grid]],
  uint3 size [[threads_per_grid]], uint3 n [[threads_per_threadgroup]],
  uint index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
  uint simd [[simdgroup_index_in_threadgroup]], uint quad [[quadgroup_index_in_threadgroup]]) {
  threadgroup uint seen[1024];
  seen[index] = index;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint last = n.x * n.y * n.z - 1;
  uint i = at.x + size.x * (at.y + size.y * at.z);
  out[i] = t.x + 3 * t.y + 5 * t.z + 7 * g.x + 11 * g.y + 13 * lane + 17 * simd + 19 * quad + 23 * seen[last - index];
}"""
SHAPES = [(1, 1, 1), (7, 1, 1), (32, 1, 1), (33, 1, 1), (8, 8, 1), (5, 3, 2), (16, 16, 4), (32, 32, 1), (1, 1, 64)]
EARLY = """kernel void k(device uint *out, uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]],
  uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup uint shared[128];
  shared[t] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd == 1 || t == 70) return;
  for (uint round = 1; round < 4; round++) {
    shared[t] = t * round;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[i] += shared[(t + 64) % 128];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}"""


def test_a_kernel_with_barriers_runs_on_lanes() -> None:
    x = np.random.default_rng(1).standard_normal(1024, dtype=np.float32)
    out = kit.compare(SUM, [x, np.zeros_like(x)], (1024, 1, 1), (128, 1, 1))[1]
    np.testing.assert_allclose(out.reshape(8, 128)[:, 0], x.reshape(8, 128).sum(axis=1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("group", SHAPES, ids=str)
def test_any_shape_of_threadgroup(group: kit.Size) -> None:
    threads = tuple(2 * size for size in group)
    kit.compare(WHERE, [np.zeros(np.prod(threads), np.uint32)], threads, group)  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [(100, 1, 1), (64, 3, 1), (200, 5, 1), (31, 31, 3)], ids=str)
def test_groups_at_the_edge_of_the_grid(threads: kit.Size) -> None:
    kit.compare(WHERE, [np.zeros(np.prod(threads), np.uint32)], threads, (32, 2, 1))


def test_simdgroups_and_threads_that_return_early_are_not_waited_for() -> None:
    kit.compare(EARLY, [np.zeros(512, np.uint32)], (512, 1, 1), (128, 1, 1))


def test_a_declined_kernel_runs_on_fibers_and_says_why() -> None:
    source = """__attribute__((noinline)) int total(int n) { return simd_sum(n); }
    kernel void k(device const int *x, device int *out, uint i [[thread_position_in_grid]]) { out[i] = total(x[i]); }"""
    arrays = [np.full(64, 6, np.int32), np.zeros(64, np.int32)]
    state = kit.pipeline(source, kit.device("lanes"))
    left, commands = kit.launch(state, arrays, (64, 1, 1), (64, 1, 1))
    assert commands.error() is None
    assert state.soft_engine() == "fibers"
    assert "total" in state.soft_declined()["lanes (64, 1, 1)"]
    assert left[1].tolist() == [6 * 32] * 64


@pytest.mark.parametrize("engine", ["flat", "fibers"])
def test_other_engines_can_be_forced(engine: str) -> None:
    state = kit.pipeline(
        "kernel void k(device int *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }", kit.device(engine)
    )
    left, _ = kit.launch(state, [np.zeros(64, np.int32)], (64, 1, 1), (64, 1, 1))
    assert left[0].tolist() == [1] * 64
    assert state.soft_engine() == engine
    assert state.soft_engines() == {(64, 1, 1): engine}
    assert state.soft_declined()["lanes"] == f"the settings ask for {engine}"


DIVIDED = """kernel void k(device const int *x, device int *out, uint i [[thread_position_in_grid]]) {
  threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = int(i) / x[i]; }"""
WILD = """kernel void k(device const int *x, device int *out, uint i [[thread_position_in_grid]]) {
  threadgroup_barrier(mem_flags::mem_threadgroup);
  device int *to = x[i] ? out + i : (device int *)16ul; *to = 1; }"""
ENDLESS = """kernel void k(device volatile int *x, device int *out, uint i [[thread_position_in_grid]]) {
  threadgroup_barrier(mem_flags::mem_threadgroup); while (x[i] == 0) { } out[i] = 1; }"""


@pytest.mark.parametrize(
    ("source", "text"), [(DIVIDED, "division by zero"), (WILD, "bad address at address 0x10"), (ENDLESS, "timeout")]
)
def test_faults_name_kernel_and_threadgroup(source: str, text: str) -> None:
    on = kit.device("lanes", watchdog_seconds=0.3)
    state = kit.pipeline(source, on)
    x = np.ones(256, np.int32)
    left, commands = kit.launch(state, [x, np.zeros_like(x)], (256, 1, 1), (64, 1, 1))
    assert commands.error() is None and state.soft_engine() == "lanes", state.soft_declined()
    x[2 * 64 + 40] = 0
    _, commands = kit.launch(state, [x, np.zeros_like(x)], (256, 1, 1), (64, 1, 1))
    message = commands.error().localizedDescription()
    assert f"kernel k: {text}" in message
    assert "threadgroup (2, 0, 0)" in message
    x[:] = 1
    _, commands = kit.launch(state, [x, np.zeros_like(x)], (256, 1, 1), (64, 1, 1))
    assert commands.error() is None


def test_messages_of_kernels(caplog: pytest.LogCaptureFixture) -> None:
    source = """kernel void k(device int *x, uint i [[thread_position_in_grid]]) {
      x[i] = simd_sum(x[i]); if (i % 20 == 3) os_log_default.log("thread %u has %d", i, x[i]); }"""
    kit.run(source, [np.ones(64, np.int32)], (64, 1, 1), (64, 1, 1))
    assert sorted(caplog.messages) == [f"thread {i} has 32" for i in (23, 3, 43, 63)]


def test_checked_mode_runs_on_fibers_and_says_so() -> None:
    source = "kernel void k(device int *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"
    state = kit.pipeline(source, kit.device("lanes", checked=True))
    kit.launch(state, [np.zeros(64, np.int32)], (64, 1, 1), (64, 1, 1))
    assert state.soft_engine() == "fibers"
    why = "checked mode runs on fibers, which tell threads apart"
    assert state.soft_declined() == {"flat": why, "lanes": why}


INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
from tests.soft import lanes_kit as kit
signal.signal(signal.SIGINT, signal.default_int_handler)
state = kit.pipeline(sys.argv[1], kit.device("lanes", watchdog_seconds=2.0))
x = np.ones(64, np.int32)
kit.launch(state, [x, x], (64, 1, 1), (64, 1, 1))
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    kit.launch(state, [0 * x, x], (64, 1, 1), (64, 1, 1))
except KeyboardInterrupt:
    print("interrupted on", state.soft_engine())
"""


def test_a_wait_for_lanes_can_be_interrupted() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, ENDLESS], capture_output=True, text=True, timeout=60, cwd=kit.ROOT
    )
    assert (done.returncode, done.stdout) == (0, "interrupted on lanes\n"), done.stderr
