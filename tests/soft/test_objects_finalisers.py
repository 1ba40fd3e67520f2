"""Finalisers that use a device: when Python ends, and on the thread of a queue."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.execution.direct import DirectRun

from .objects_kit import array, buffer, pipeline

FINALISER = """
import logging, sys, time
logging.disable()
from mlx_native_py import MlxDevice
from mlx_native_py.softmetal.memory import PrivatePages, arena
device = MlxDevice("soft")
library = device.compile('''
#include <metal_stdlib>
using namespace metal;
kernel void count(device uint *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }
kernel void endless(device volatile uint *x) { while (x[7] < 100) x[0] += 1; }
''')
x = device.zeros(8, "u32")
library.count(x)

class Late:
    def __init__(self):
        self.run, self.x, self.me = library.count, x, self if sys.argv[1] == "cycle" else None
        self.device = device
    def __del__(self):
        self.device.mtl.newBufferWithLength_options_(1 << 14, 0)
        try:
            self.run(self.x)
        except Exception as refused:
            print(refused)

late = Late()
if sys.argv[1] == "memory":  # is being given back by a thread that Python stops
    kept = {"close": PrivatePages.close, "sleep": time.sleep}  # not this module, which would not end then
    exec("def slowly(*arguments): sleep(0.05); return close(*arguments)", kept)
    PrivatePages.close = kept["slowly"]
    held = [device.mtl.newBufferWithLength_options_(1 << 14, 0) for _ in range(10)]
    del held
    time.sleep(0.2)
if sys.argv[1] == "running":  # on a thread that Python stops
    enc = device.command_encoder()
    enc.dispatch(library.endless.pipeline, x, threads=1)
    late.run = lambda _, ticket=enc.commit(): ticket.wait()
    time.sleep(0.2)
"""


@pytest.mark.parametrize("kind", ["plain", "cycle", "memory", "running"])
def test_a_finaliser_that_runs_when_python_ends_hangs_nowhere(kind: str) -> None:
    done = subprocess.run([sys.executable, "-c", FINALISER, kind], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the process is ending" in done.stdout


AT_EXIT = """
import atexit, sys
import mlx_native_py as mlx

def last():
    library.count(x)
    encoder = device.command_encoder()
    encoder.dispatch(library.slow.pipeline, x, threads=8)
    encoder.commit()
    print(x.numpy().tolist())

atexit.register(last)
device = mlx.MlxDevice("soft", isolated=sys.argv[1] == "isolated")
library = device.compile('''
#include <metal_stdlib>
using namespace metal;
kernel void count(device uint *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }
kernel void slow(device volatile uint *x, uint i [[thread_position_in_grid]]) {
  for (uint n = 0; n < 1000000; ++n) x[i] += 1;
}
''')
x = device.zeros(8, "u32")
library.count(x)
"""


@pytest.mark.parametrize("kind", ["plain", "isolated"])
def test_functions_of_atexit_may_use_devices_that_are_opened_later(kind: str) -> None:
    done = subprocess.run([sys.executable, "-c", AT_EXIT, kind], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{[1_000_002] * 8}\n")


class Waiting:
    """Garbage whose finaliser runs a kernel and waits."""

    def __init__(self, act: Any) -> None:
        self.act, self.me = act, self
        self.raised: list[BaseException] = []

    def __del__(self) -> None:
        try:
            self.act()
        except Metal.EndlessWait as refused:
            self.raised.append(refused)


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_finaliser_on_the_queues_thread_does_not_wait_for_itself(
    queue: Any, device: Any, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The garbage collector runs on any thread, also where a command buffer is about to run or to end."""
    event, ran = device.newSharedEvent(), []
    first, second, counter = queue.commandBuffer(), queue.commandBuffer(), buffer(np.zeros(1, np.uint32))
    first.addCompletedHandler_(lambda _: None)  # so that the queue's thread runs it
    second.encodeSignalEvent_value_(event, 1)

    def act() -> None:
        ran.append(threading.get_ident())
        second.commit()
        event.waitUntilSignaledValue_timeoutMS_(1, 30_000)

    state = type(first.state)
    name = "call" if where == "before" else "release"
    ordinary = getattr(state, name)

    def collecting(work: Any, *arguments: Any) -> Any:
        if work is first.state:
            gc.collect()
        return ordinary(work, *arguments)

    gc.collect()
    garbage = Waiting(act)
    raised = garbage.raised
    monkeypatch.setattr(state, name, collecting)
    encoder = first.computeCommandEncoder()
    encoder.setComputePipelineState_(pipeline("count"))
    encoder.setBuffer_offset_atIndex_(counter, 0, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
    encoder.endEncoding()
    gc.disable()
    try:
        del garbage
        first.commit()
        first.waitUntilCompleted()
    finally:
        gc.enable()
    second.waitUntilCompleted()
    assert len(raised) == 1 and "queue's own thread" in str(raised[0])
    assert ran and ran[0] != threading.get_ident()
    assert first.error() is second.error() is None
    assert int(array(counter, np.uint32)[0]) == 1 and event.signaledValue() == 1


def test_a_finaliser_in_a_direct_run_does_not_wait_for_itself(
    queue: Any, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting thread has the first command buffer then, so that nobody can run the next one."""
    event, first, second = device.newSharedEvent(), queue.commandBuffer(), queue.commandBuffer()
    first.encodeSignalEvent_value_(event, 1)
    second.encodeSignalEvent_value_(event, 2)
    ordinary = DirectRun.__init__

    def collecting(run: Any, *arguments: Any) -> None:
        ordinary(run, *arguments)
        run.call = (lambda: gc.collect() * 0,)

    def act() -> None:
        second.commit()
        event.waitUntilSignaledValue_timeoutMS_(2, 3000)

    gc.collect()
    garbage = Waiting(act)
    raised = garbage.raised
    gc.disable()
    try:
        del garbage
        monkeypatch.setattr(DirectRun, "__init__", collecting)
        first.commit()
        assert event.waitUntilSignaledValue_timeoutMS_(1, 30_000)
    finally:
        gc.enable()
    second.waitUntilCompleted()
    assert len(raised) == 1 and event.signaledValue() == 2


def test_a_handler_may_ask_whether_later_work_is_done(queue: Any, device: Any) -> None:
    """Without a wait, which would be endless."""
    event, answers = device.newSharedEvent(), []
    first, second = queue.commandBuffer(), queue.commandBuffer()
    first.addCompletedHandler_(lambda _: answers.append(event.waitUntilSignaledValue_timeoutMS_(1, 0)))
    second.encodeSignalEvent_value_(event, 1)
    first.enqueue()
    second.commit()
    first.commit()
    first.waitUntilCompleted()
    second.waitUntilCompleted()
    assert answers == [False] and event.waitUntilSignaledValue_timeoutMS_(1, 0)
