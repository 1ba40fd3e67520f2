"""How command buffers end: faults, memory that is kept or lost, interrupted waits, and the end of the process."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal

from .objects_kit import array, buffer, encode_add, endless, finish, pipeline


@pytest.mark.parametrize(
    ("kernel", "values", "code", "text"),
    [
        ("far", [0, 0, 0, 0], Metal.MTLCommandBufferErrorPageFault, "bad address"),
        ("divided", [0, 1, 0, 0], Metal.MTLCommandBufferErrorInternal, "division by zero"),
        ("endless", [0, 0, 0, 0], Metal.MTLCommandBufferErrorTimeout, "timeout"),
    ],
)
def test_a_faulty_kernel_is_an_error_of_its_command_buffer(
    kernel: str, values: list[int], code: int, text: str
) -> None:
    device = Metal.open_device(Metal.SoftOptions(watchdog_seconds=0.3))
    queue, bound = device.newCommandQueue(), buffer(np.array(values, np.int32), device)
    descriptor = Metal.MTLCommandBufferDescriptor.alloc().init()
    descriptor.setErrorOptions_(Metal.MTLCommandBufferErrorOptionEncoderExecutionStatus)
    command_buffer = queue.commandBufferWithDescriptor_(descriptor)
    event = device.newSharedEvent()
    for number, name in enumerate(("narrow", kernel, "narrow")):
        encoder = command_buffer.computeCommandEncoder()
        encoder.setLabel_(f"encoder {number}")
        encoder.pushDebugGroup_("layer")
        encoder.setComputePipelineState_(pipeline(name, device))
        encoder.setBuffer_offset_atIndex_(bound if number == 1 else buffer(np.zeros(1, np.uint32), device), 0, 0)
        encoder.dispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
        encoder.popDebugGroup()
        encoder.endEncoding()
    command_buffer.encodeSignalEvent_value_(event, 1)
    finish(command_buffer)
    error = command_buffer.error()
    assert error is not None and command_buffer.status() == Metal.MTLCommandBufferStatusError
    assert (error.domain(), error.code()) == (Metal.MTLCommandBufferErrorDomain, code)
    assert f"kernel layer/{kernel}: {text}" in error.localizedDescription()
    assert "threadgroup (0, 0, 0)" in error.localizedDescription()
    infos = error.userInfo()[Metal.MTLCommandBufferEncoderInfoErrorKey]
    assert [(info.label(), info.errorState()) for info in infos] == [
        ("encoder 0", 1),
        ("encoder 1", 4),
        ("encoder 2", 3),
    ]
    assert event.signaledValue() == 0  # as on Metal, events of a failed command buffer stay silent
    after = queue.commandBuffer()
    finish(after)
    assert after.status() == Metal.MTLCommandBufferStatusCompleted


@pytest.mark.parametrize(
    ("counts", "group"), [((1 << 22, 1 << 21, 1 << 21), (1, 1, 1)), ((1, 1 << 31, 1), (1, 2, 1))], ids=["all", "a row"]
)
def test_indirect_counts_that_wrap_are_an_error(device: Any, queue: Any, counts: Any, group: Any) -> None:
    command_buffer = queue.commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    encoder.setComputePipelineState_(pipeline("narrow"))
    encoder.setBuffer_offset_atIndex_(buffer(np.zeros(1, np.uint32)), 0, 0)
    asked = buffer(np.array(counts, np.uint32))
    encoder.dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup_(asked, 0, group)
    encoder.endEncoding()
    finish(command_buffer)
    assert f"{counts} threadgroups" in command_buffer.error().localizedDescription()


def test_the_watchdog_times_each_dispatch() -> None:
    """Many dispatches may together take longer than one may."""
    device = Metal.open_device(Metal.SoftOptions(watchdog_seconds=1.0))
    queue = device.newCommandQueue()
    endless(queue, buffer(np.ones(2, np.uint32), device), device).waitUntilCompleted()  # so that it is compiled
    stops = [buffer(np.zeros(2, np.uint32), device) for _ in range(3)]
    commands = queue.commandBuffer()
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(pipeline("endless", device))
    for number, stop in enumerate(stops):
        encoder.setBuffer_offset_atIndex_(stop, 0, 0)
        encoder.dispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
        threading.Timer(0.4 * (number + 1), array(stop, np.uint32).__setitem__, (0, 1)).start()
    encoder.endEncoding()
    finish(commands)
    assert commands.error() is None
    assert commands.GPUEndTime() - commands.GPUStartTime() > 1.0


def test_retained_references_keep_memory_until_completion(device: Any, queue: Any) -> None:
    gc.collect()
    stop, start = buffer(np.zeros(2, np.uint32)), device.currentAllocatedSize()
    running = endless(queue, stop)
    source, target = buffer(np.ones(4096, np.float32)), buffer(np.zeros(4096, np.float32))
    command_buffer = queue.commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    encode_add(encoder, source, target, 1, 4096)
    encoder.endEncoding()
    command_buffer.commit()
    del source, target
    assert device.currentAllocatedSize() == start + 2 * 16384
    array(stop, np.uint32)[0] = 1
    command_buffer.waitUntilCompleted()
    assert device.currentAllocatedSize() == start
    assert running.error() is command_buffer.error() is None


def test_unretained_references_report_lost_memory(device: Any, queue: Any) -> None:
    source, target = buffer(np.ones(64, np.float32)), buffer(np.zeros(64, np.float32))
    target.setLabel_("sums")
    command_buffer = queue.commandBufferWithUnretainedReferences()
    assert not command_buffer.retainedReferences()
    encoder = command_buffer.computeCommandEncoder()
    encode_add(encoder, source, target, 1, 64)
    encoder.endEncoding()
    del target
    finish(command_buffer)
    assert command_buffer.error().code() == Metal.MTLCommandBufferErrorInvalidResource
    assert "'sums' at index 1 was released" in command_buffer.error().localizedDescription()


def test_the_wait_can_be_interrupted(device: Any, queue: Any) -> None:
    stop = buffer(np.zeros(2, np.uint32))
    running = endless(queue, stop)
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        running.waitUntilCompleted()
    assert running.status() < Metal.MTLCommandBufferStatusCompleted
    array(stop, np.uint32)[0] = 1
    running.waitUntilCompleted()
    assert running.error() is None


CHILD = """
import atexit, logging, os, sys
logging.disable()  # the first use on a machine announces its set-up
def late():
    command_buffer = queue.commandBuffer()
    command_buffer.commit()
    try:
        command_buffer.waitUntilCompleted()
    except Metal.MetalMisuse as refused:
        print(refused)
if sys.argv[1] == "late":
    atexit.register(late)
from mlx_native_py import softmetal as Metal
device = Metal.open_device(Metal.SoftOptions(watchdog_seconds=600))
queue = device.newCommandQueue()
kind = sys.argv[1]
if kind == "fork":
    print("leaving", flush=True)
    child = os.fork()
    if child == 0:
        try:
            queue.commandBuffer()
        except Metal.ForkedProcess:
            os._exit(7)
        os._exit(1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if kind == "late":
    sys.exit(0)
if kind == "spawn":
    import multiprocessing
    program = (
        "from mlx_native_py import softmetal as Metal\\n"
        "Metal.MTLCreateSystemDefaultDevice().newCommandQueue().commandBuffer().commit()"
    )
    work = multiprocessing.get_context("spawn").Process(target=exec, args=(program,))
    work.start()
    work.join()
    if work.exitcode:
        sys.exit(1)
command_buffer = queue.commandBuffer()
command_buffer.encodeWaitForEvent_value_(device.newSharedEvent(), 1)
command_buffer.commit()
print("leaving", flush=True)
if kind == "raise":
    raise SystemExit(5)
if kind == "exit":
    os._exit(6)
if kind == "thread":
    import threading
    work = threading.Thread(target=lambda: queue.commandBuffer().commit())
    work.start()
    work.join()
"""
KINDS = {"wait": 0, "raise": 5, "fork": 7, "exit": 6, "thread": 0, "spawn": 0}
ENDED = 2.0  # seconds in which a process has ended, with a processor to itself


class Beat:
    """How long this process stood still: others may have the processors, or somebody stops all programs for a while."""

    TICK = 0.02

    def __init__(self) -> None:
        self.lost = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        before = time.monotonic()
        while not self._done.wait(self.TICK):
            now = time.monotonic()
            self.lost += max(0.0, now - before - 2 * self.TICK)
            before = now

    def __enter__(self) -> Beat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def _ends(kind: str) -> None:
    command, pipe = [sys.executable, "-c", CHILD, kind], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as child, Beat() as beat:
        try:
            assert child.stdout is not None and child.stdout.readline() == "leaving\n"
            begin, lost = time.monotonic(), beat.lost
            out, err = child.communicate(timeout=300)
            taken = time.monotonic() - begin - (beat.lost - lost)
        finally:
            child.kill()
    crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # that wants each processor
    assert taken < ENDED * crowd, f"{kind}: {taken:.1f} s"
    assert (child.returncode, out, err) == (KINDS[kind], "", "")


@pytest.mark.parametrize("kind", KINDS)
def test_the_process_ends_with_work_in_flight(kind: str) -> None:
    _ends(kind)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_processes_end_with_work_in_flight(kind: str) -> None:
    for _ in range(200):
        _ends(kind)


def test_work_after_the_end_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, "late"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the process is ending" in done.stdout


def test_a_broken_end_leaves_nobody_waiting(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> None:
        raise SystemExit("no room")

    first, second = queue.commandBuffer(), queue.commandBuffer()
    monkeypatch.setattr(type(first.state), "release", broken)
    first.addCompletedHandler_(lambda _: None)  # so that the queue's thread runs it
    first.commit()
    with pytest.raises(Metal.MetalMisuse, match="no room"):
        first.waitUntilCompleted()
    monkeypatch.undo()
    finish(second)
    assert (first.status(), second.status()) == (
        Metal.MTLCommandBufferStatusError,
        Metal.MTLCommandBufferStatusCompleted,
    )


def test_threads_share_a_device(device: Any) -> None:
    log = [buffer(np.zeros(2, np.uint32)) for _ in range(4)]

    def work(mine: Any) -> None:
        queue = device.newCommandQueue()
        for _ in range(25):
            command_buffer = queue.commandBuffer()
            encoder = command_buffer.computeCommandEncoder()
            encoder.setComputePipelineState_(pipeline("count"))
            encoder.setBuffer_offset_atIndex_(mine, 0, 0)
            encoder.dispatchThreads_threadsPerThreadgroup_((100, 1, 1), (32, 1, 1))
            encoder.endEncoding()
            finish(command_buffer)

    pipeline("count")
    threads = [threading.Thread(target=work, args=(mine,)) for mine in log]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [int(array(mine, np.uint32)[0]) for mine in log] == [2500] * 4


def test_a_broken_device_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def prepare(self, *_: Any, **__: Any) -> None:
            raise OSError("no such luck")

    result: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: result.append(str(raised.exc_value)))
    device = Metal.open_device()
    log = buffer(np.zeros(4, np.uint32), device)
    command_buffer = device.newCommandQueue().commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    encoder.setComputePipelineState_(pipeline("narrow", device))
    encoder.setBuffer_offset_atIndex_(log, 0, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
    encoder.endEncoding()
    monkeypatch.setattr(device.state, "runtime", Broken())
    finish(command_buffer)
    error = command_buffer.error()
    assert error is not None and error.code() == Metal.MTLCommandBufferErrorInternal
    assert result == ["no such luck"]
