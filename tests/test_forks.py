"""Processes that fork while other threads work: the child hangs nowhere, and devices refuse it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlx_native_py import forks

pytestmark = pytest.mark.soft
ROOT = str(Path(__file__).parents[1])
CHILD = """
import faulthandler, os, random, signal, sys, threading, time, warnings
import numpy as np
from mlx_native_py import MlxDevice, counters, fn, profile, region
from mlx_native_py.errors import MlxError
from mlx_native_py.profiling import kernel_profile

warnings.simplefilter("ignore")  # of forks in processes with threads
faulthandler.register(signal.SIGALRM, chain=True)
sys.setswitchinterval(1e-5)
SOURCE = '''
#include <metal_stdlib>
using namespace metal;
kernel void twice(device const float *x, device float *y, uint i [[thread_position_in_grid]]) { y[i] = 2 * x[i]; }
'''
device = MlxDevice("soft", isolated=sys.argv[1] == "isolated")
library, pool, registry = device.compile(SOURCE), device.buffer_pool(), device.kernels
keep = device.buffer(np.arange(1000, dtype=np.float32))
done = threading.Event()


def profiled():
    with profile():
        fn.add(keep, keep)


WORK = (
    lambda: keep.numpy().sum(),
    lambda: device.zeros(random.randrange(1, 5000)),
    lambda: (counters.total(), counters.reset_counters(), counters.total()),
    lambda: library.twice(keep, device.empty(1000)),
    lambda: pool.release(pool.alloc(400, "f32", 100)),
    lambda: fn.add(keep, keep),
    profiled,
    lambda: registry.register_source("other", SOURCE),
    lambda: kernel_profile.record("label", 3),
)
REFUSED = (
    lambda: device.zeros(3),
    lambda: device.command_encoder(),
    lambda: pool.alloc(400, "f32", 100),
    lambda: fn.add(keep, keep),
    lambda: library.twice(keep, keep),
    lambda: device.compile(SOURCE + "// another"),
    lambda: MlxDevice("soft"),
)


def hammer():
    while not done.is_set():
        random.choice(WORK)()


def forked():
    assert keep.numpy().sum() == 499500.0 and keep[3:5].numpy().tolist() == [3.0, 4.0]
    repr((keep, device, pool, device.submissions, device.residency, registry))
    counters.total()
    counters.reset_counters()
    kernel_profile.dump()
    pool.statistics(), pool.reset(), pool.trim()
    with region("child"), profile(), counters.scope():
        for call in REFUSED:
            try:
                call()
            except MlxError:
                continue
            raise AssertionError("not refused")
    device.close()


threads = [threading.Thread(target=hammer, daemon=True) for _ in range(6)]
for each in threads:
    each.start()
for number in range(int(sys.argv[2])):
    time.sleep(random.uniform(0, 0.004))
    child = os.fork()
    if not child:
        signal.alarm(20)
        forked()
        sys.exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"child {number} ended with {code}"
done.set()
for each in threads:
    each.join(60)
assert not any(each.is_alive() for each in threads)
"""


def test_nobody_holds_a_lock_in_a_forked_child() -> None:
    lock = forks.Lock()
    with lock, lock:
        child = os.fork()
        if not child:
            with lock:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("kind", ["plain", "isolated"])
def test_children_of_a_busy_process_hang_nowhere(kind: str, request: pytest.FixtureRequest) -> None:
    count = "500" if request.config.getoption("--full") else "25"
    command = [sys.executable, "-c", CHILD, kind, count]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-4000:]


WAITING = """
import os, signal, sys, threading
from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.execution.queue import QueueState
device = Metal.open_device(Metal.SoftOptions(watchdog_seconds=600))
queue, event, gate = device.newCommandQueue(), device.newSharedEvent(), device.newSharedEvent()
running = queue.commandBuffer()
if sys.argv[1] == "running":
    running.encodeWaitForEvent_value_(gate, 1)
running.encodeSignalEvent_value_(event, 1)


def child():
    signal.alarm(20)
    refused = 0
    for wait in (running.waitUntilCompleted, lambda: event.waitUntilSignaledValue_timeoutMS_(1, 10**6)):
        try:
            wait()
        except Metal.ForkedProcess:
            refused += 1
    os._exit(refused)


def halfway(self, work, retire=QueueState._retire):
    there.set()
    onward.wait()
    retire(self, work)


there, onward = threading.Event(), threading.Event()
if sys.argv[1] == "halfway":
    QueueState._retire = halfway
running.commit()
if sys.argv[1] == "halfway":
    there.wait()
if not os.fork():
    child()
code = os.waitstatus_to_exitcode(os.wait()[1])
onward.set()
gate.setSignaledValue_(1)
running.waitUntilCompleted()
assert running.error() is None
sys.exit(code)
"""


@pytest.mark.parametrize(("state", "refused"), [("running", 2), ("halfway", 0)])
def test_a_forked_child_waits_for_nobody(state: str, refused: int) -> None:
    """What has run is done, also where the thread that was to say so stayed with the parent."""
    command = [sys.executable, "-W", "ignore", "-c", WAITING, state]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)
    assert done.returncode == refused, done.stderr[-4000:]
