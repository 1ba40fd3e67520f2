"""How a launch is shared: small ones stay where they are, long ones use all cores, idle workers sleep."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mlx_native_py import MlxDevice, fn, settings

IDLE = """
import sys, time; sys.path[:0] = sys.argv[1:]
def idle(seconds):
    start = time.process_time()
    time.sleep(seconds)
    return time.process_time() - start
"""
"""What follows can tell how much of the processor's time it takes while it does nothing."""

SCRIPT = """
import os
from pathlib import Path
import numpy as np
from soft.engine_driver import build, launch, runtime
SOURCE = '''static void k(device uint* out, uint i, uint g) {
  uint x = i; for (uint n = 0; n < %s; n++) x = x * 1664525 + 1013904223;
  out[i] = x ? out[i] + 1 : 0; }
SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_IN(thread_position_in_grid), SOFT_IN(threadgroup_position_in_grid))'''
small, medium, large = (build(SOURCE % rounds, "flat") for rounds in (1, 400, 20000))
def threads(): return len(list(Path("/proc/self/task").iterdir()))
def wakes():
    lines = [line for task in Path("/proc/self/task").iterdir() if int(task.name) != os.getpid()
             for line in (task / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
out = np.zeros(64 * 1024, np.uint32)
before, slept = threads(), wakes()
for _ in range(2000): runtime().run([launch(small, [out], 1024, 64)], 0.0, 64)
assert wakes() - slept < 200, wakes() - slept
assert (out[:1024] == 2000).all() and not out[1024:].any()
out[:] = 0
for turn in (1, 2, 3):
    runtime().run([launch(large, [out], out.size, 64)], 0.0, 64)
    assert (out == turn).all()
assert threads() == before + 63, (before, threads())
for cores in range(1, 65):
    runtime().run([launch(medium, [out], out.size, 64)], 0.0, cores)
    assert (out == 3 + cores).all(), cores
assert min(idle(0.5) for _ in range(4)) < 0.05
"""


def test_workers_are_woken_by_long_launches_and_sleep_when_idle() -> None:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", IDLE + SCRIPT, str(tests), str(tests.parent)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr


CORES = """
import os, sys, time; sys.path[:0] = sys.argv[1:]
from pathlib import Path
import numpy as np
from soft.engine_driver import build, launch, runtime
k = build('''static void k(device uint* out, uint i) {
  uint x = i; for (uint n = 0; n < 2000; n++) x = x * 1664525 + 1013904223;
  out[i] = x; }
SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_IN(thread_position_in_grid))''', "flat")
out = np.zeros(1 << 16, np.uint32)
def run(): runtime().run([launch(k, [out], out.size, 64)], 0.0, 2)
def others(): return {int(task.name) for task in Path("/proc/self/task").iterdir()} - {os.getpid()}
allowed, before = os.sched_getaffinity(0), others()
for core in 2 * sorted(allowed):
    run()  # the first starts the worker, which is kept off a core only once it runs
    time.sleep(0.01)
    os.sched_setaffinity(0, {core})
    os.sched_setaffinity(0, allowed)  # the system leaves a thread where it is
    run()
(worker,) = others() - before
assert len(os.sched_getaffinity(worker)) == len(allowed) - 1, os.sched_getaffinity(worker)
assert os.sched_getaffinity(worker) < allowed == os.sched_getaffinity(0)
kept = os.sched_getaffinity(worker)
os.sched_setaffinity(0, allowed - kept)  # nowhere else to go
run()
assert os.sched_getaffinity(worker) == kept
"""


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not let threads choose their cores")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
def test_a_worker_stays_off_the_core_of_the_thread_that_wakes_it() -> None:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", CORES, str(tests), str(tests.parent)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.soft
def test_results_are_the_same_bits_on_any_number_of_cores() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in ((300, 515), (515, 260)))
    results = {}
    for threads in (1, 2, 4, 8, 64):
        with settings.override(soft_threads=threads), MlxDevice("soft") as device:
            ways = (fn.softmax, fn.rms_norm, fn.cumsum, fn.sum, fn.argsort)
            answers = [fn.matmul(a, b, stream=device), *(way(a, stream=device) for way in ways)]
            results[threads] = [each.numpy().tobytes() for each in answers]
    assert all(each == results[1] for each in results.values())


OPEN = """
from mlx_native_py import MlxDevice
with MlxDevice("soft") as device:
    lib = device.compile("kernel void twice(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }")
    few, many = device.ones(64), device.ones(1 << 22)
    for _ in range(50): lib.twice(few)
    lib.twice(many, wait=False).wait()
    for _ in range(20):  # the last compilations may still be under way
        if (taken := idle(1.0)) < 0.01: break
    print(taken)
"""


@pytest.mark.soft
def test_an_open_device_that_is_idle_takes_no_processor_time() -> None:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", IDLE + OPEN, str(tests.parent)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0 and float(result.stdout.split()[-1]) < 0.01, (result.stdout, result.stderr)


CALLS = """
import os, sys; sys.path[:0] = sys.argv[1:]
from pathlib import Path
from mlx_native_py import MlxDevice
device = MlxDevice("soft")
count = device.compile("kernel void count(device uint *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }").count
x = device.zeros(64, "u32")
def wakes():
    tasks = [task for task in Path("/proc/self/task").iterdir() if int(task.name) != os.getpid()]
    lines = [line for task in tasks for line in (task / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
for _ in range(100): count(x)
before = wakes()
for _ in range(2000): count(x)
assert wakes() - before < 1000, wakes() - before
assert (x.numpy() == 2100).all()
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not count wake-ups")
def test_synchronous_calls_wake_no_other_thread() -> None:
    """The queue's thread looks for itself now and then."""
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", CALLS, str(tests.parent)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
