"""Short work is run by the thread that waits for it; what may take long, or tells somebody, is not."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.execution.direct import direct_run
from mlx_native_py.softmetal.execution.launches import LaunchBatch
from mlx_native_py.softmetal.execution.residency import joined

from .objects_kit import array, buffer, default_device, encode_add, endless, pipeline


def adding(queue: Any, target: Any) -> Any:
    commands = queue.commandBuffer()
    encoder = commands.computeCommandEncoder()
    encode_add(encoder, target, target, 1.0, 32)
    encoder.endEncoding()
    return commands


def warm(queue: Any) -> Any:
    """A buffer that short work is known to take little time with; the queue has a thread that polls."""
    target, end = buffer(np.zeros(32, np.float32)), time.monotonic() + 60
    for number in itertools.count():
        commands = adding(queue, target)
        commands.commit()
        commands.waitUntilCompleted()
        if number > 20 and (pipeline("add").state.is_settled((32, 1, 1)) or time.monotonic() > end):
            break
    array(target)[:] = 0
    return target


def settled(queue: Any, performed: list[int], commit_and_wait: Any) -> int:
    """How many of 50 command buffers the queue's thread ran."""
    performed.clear()
    for _ in range(50):
        commit_and_wait()
    return len(performed)


def test_short_work_needs_no_hand_over(queue: Any, performed: list[int]) -> None:
    target = warm(queue)

    def commit_and_wait() -> None:
        commands = adding(queue, target)
        commands.commit()
        commands.waitUntilCompleted()
        assert (commands.status(), commands.error()) == (Metal.MTLCommandBufferStatusCompleted, None)
        assert commands.kernelStartTime() <= commands.GPUStartTime() <= commands.GPUEndTime()

    assert settled(queue, performed, commit_and_wait) < 50  # on a busy machine the queue's thread may come first
    assert list(array(target)) == [50.0] * 32


def test_whoever_waits_for_the_event_runs_it_too(device: Any, queue: Any, performed: list[int]) -> None:
    target, event, value = warm(queue), device.newSharedEvent(), iter(range(1, 100))

    def commit_and_wait() -> None:
        commands, wanted = adding(queue, target), next(value)
        commands.encodeSignalEvent_value_(event, wanted)
        commands.commit()
        assert event.waitUntilSignaledValue_timeoutMS_(wanted, 4000)

    assert settled(queue, performed, commit_and_wait) < 50
    assert list(array(target)) == [50.0] * 32


def test_a_timeout_of_nothing_runs_nothing(device: Any, queue: Any, performed: list[int]) -> None:
    target, event = warm(queue), device.newSharedEvent()
    performed.clear()
    commands = adding(queue, target)
    commands.encodeSignalEvent_value_(event, 1)
    commands.commit()
    while not event.waitUntilSignaledValue_timeoutMS_(1, 0):
        time.sleep(0.001)
    assert len(performed) == 1


def test_handlers_run_on_the_queues_thread(queue: Any, performed: list[int]) -> None:
    target, threads = warm(queue), set()

    def commit_and_wait() -> None:
        commands = adding(queue, target)
        commands.addCompletedHandler_(lambda _: threads.add(threading.get_ident()))
        commands.commit()
        commands.waitUntilCompleted()

    assert settled(queue, performed, commit_and_wait) == 50
    assert threading.get_ident() not in {*threads, *performed}


def test_a_loop_never_keeps_ctrl_c_waiting(queue: Any, performed: list[int]) -> None:
    """It may have been short before."""
    stop = buffer(np.ones(2, np.uint32))
    assert pipeline("endless").state.code.has_loops
    assert not pipeline("add").state.code.has_loops
    assert settled(queue, performed, lambda: endless(queue, stop).waitUntilCompleted()) == 50
    assert threading.get_ident() not in performed


@pytest.mark.parametrize(("milliseconds", "is_direct"), [(5, True), (50, False)])
def test_the_main_thread_waits_for_ctrl_c_as_long_as_nobody_notices(
    queue: Any, performed: list[int], milliseconds: int, is_direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def took(batch: LaunchBatch, times: Any) -> None:
        for dispatch in batch.dispatches:
            dispatch.pipeline.ns_per_thread[dispatch.shape] = milliseconds * 1e6 / dispatch.threads

    monkeypatch.setattr(LaunchBatch, "ran", took)
    target = warm(queue)

    def commit_and_wait() -> None:
        commands = adding(queue, target)
        commands.commit()
        commands.waitUntilCompleted()

    assert (settled(queue, performed, commit_and_wait) < 50) is is_direct


def test_work_that_nobody_waits_for_runs_all_the_same(queue: Any) -> None:
    target = warm(queue)
    commands = adding(queue, target)
    commands.commit()
    done = threading.Event()
    while commands.status() < Metal.MTLCommandBufferStatusCompleted:
        assert not done.wait(0.001)
    assert list(array(target)) == [1.0] * 32


def test_many_threads_wait_on_one_queue(queue: Any) -> None:
    target = warm(queue)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(40):
                commands = adding(queue, target)
                commands.commit()
                commands.waitUntilCompleted()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert list(array(target)) == [160.0] * 32


def replaying(count: int) -> tuple[Any, Any]:
    """Indirect commands that each run a kernel with a loop in it, and what they write to."""
    descriptor = Metal.MTLIndirectCommandBufferDescriptor.new()
    descriptor.setCommandTypes_(Metal.MTLIndirectCommandTypeConcurrentDispatchThreads)
    descriptor.setInheritBuffers_(False)
    descriptor.setInheritPipelineState_(False)
    device, target = default_device(), buffer(np.ones(2, np.uint32))
    commands = device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(descriptor, count, 0)
    for index in range(count):
        command = commands.indirectComputeCommandAtIndex_(index)
        command.setComputePipelineState_(pipeline("endless", None, True))
        command.setKernelBuffer_offset_atIndex_(target, 0, 0)
        command.concurrentDispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
    return commands, target


def encode_replay(commands: Any, replayed: tuple[Any, Any]) -> None:
    encoder = commands.computeCommandEncoderWithDispatchType_(1)
    encoder.useResource_usage_(replayed[1], Metal.MTLResourceUsageRead | Metal.MTLResourceUsageWrite)
    encoder.executeCommandsInBuffer_withRange_(replayed[0], (0, replayed[0].size()))
    encoder.endEncoding()


def test_a_replay_with_loops_is_run_by_a_waiting_thread_but_the_main_one(queue: Any, performed: list[int]) -> None:
    replayed = replaying(2)

    def commit_and_wait() -> None:
        commands = queue.commandBuffer()
        encode_replay(commands, replayed)
        commands.commit()
        commands.waitUntilCompleted()
        assert commands.error() is None

    end = time.monotonic() + 60
    while not pipeline("endless", None, True).state.is_settled((1, 1, 1)) and time.monotonic() < end:
        commit_and_wait()
    assert settled(queue, performed, commit_and_wait) == 50
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(settled(queue, performed, commit_and_wait)))
    thread.start()
    thread.join(60)
    assert found[0] < 50


def test_a_replay_with_loops_keeps_no_other_thread_waiting(queue: Any) -> None:
    """However brief it was: a buffer decides how long its loop takes this time."""
    replayed = replaying(2)
    stop, ended = array(replayed[1]), threading.Event()
    stop[:] = 1, 0

    def commit_and_wait() -> Any:
        commands = queue.commandBuffer()
        encode_replay(commands, replayed)
        commands.commit()
        commands.waitUntilCompleted()
        return commands.error()

    def work() -> None:
        for _ in range(50):
            commit_and_wait()
        stop[0] = 0
        errors.append(commit_and_wait())
        ended.set()

    errors: list[Any] = []
    end = time.monotonic() + 60
    while not pipeline("endless", None, True).state.is_settled((1, 1, 1)) and time.monotonic() < end:
        commit_and_wait()
    threading.Thread(target=work).start()
    while not stop[1] and not ended.is_set():
        time.sleep(0.001)
    stop[0] = 1
    assert ended.wait(60)
    assert errors == [None]


def test_a_command_buffer_stops_for_events_and_whoever_comes_goes_on(device: Any, queue: Any) -> None:
    """Parts of it are run by the thread that waits, or by the queue's; each runs once, in order."""
    target, event = warm(queue), device.newSharedEvent()
    for turn in range(50):
        base = 6 * turn
        commands = queue.commandBuffer()
        for part in range(3):
            encoder = commands.computeCommandEncoder()
            encode_add(encoder, target, target, 1.0, 32)
            encoder.endEncoding()
            commands.encodeSignalEvent_value_(event, base + 2 * part + 1)
            commands.encodeWaitForEvent_value_(event, base + 2 * part + 2)
        commands.commit()
        for part in range(3):
            if (turn + part) % 3:
                assert event.waitUntilSignaledValue_timeoutMS_(base + 2 * part + 1, 4000)
            else:
                while event.signaledValue() < base + 2 * part + 1:
                    time.sleep(0.0005)
            assert event.signaledValue() == base + 2 * part + 1
            assert array(target)[0] == 3 * turn + part + 1
            assert commands.status() < Metal.MTLCommandBufferStatusCompleted
            event.setSignaledValue_(base + 2 * part + 2)
        commands.waitUntilCompleted()
        assert commands.error() is None
        assert commands.GPUStartTime() <= commands.GPUEndTime()


class ClearedMeanwhile(list[Any]):
    """Commands that another thread lets go of as soon as somebody has counted them."""

    def __len__(self) -> int:
        count = super().__len__()
        self.clear()
        return count


def test_a_command_buffer_may_end_while_a_waiting_thread_looks_at_it(queue: Any) -> None:
    target = warm(queue)
    work = adding(queue, target).state
    work.commands = ClearedMeanwhile(work.commands)
    direct_run(work, lambda _: joined())


def test_a_waiting_thread_leaves_launches_alone_that_another_may_be_running(queue: Any) -> None:
    target = warm(queue)
    work = adding(queue, target).state
    (dispatch,) = work.commands[0].dispatches()
    before = bytes(dispatch.launch)
    assert direct_run(work, lambda _: joined()) is not None
    assert bytes(dispatch.launch) == before


@pytest.mark.parametrize(
    ("threads", "nanoseconds", "woken"), [(64, 50_000, [2]), (64, 5_000, []), (32, 50_000, []), (64, 1e9, [50_000])]
)
def test_long_work_of_several_threadgroups_wakes_workers_when_it_is_committed(
    device: Any, queue: Any, threads: int, nanoseconds: float, woken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, rouse = warm(queue), device.state.rouse
    asked: list[int] = []

    def noting(count: int) -> None:
        asked.append(count)
        rouse(count)

    monkeypatch.setitem(device.state.__dict__, "rouse", noting)
    many = buffer(np.zeros(threads, np.float32))
    monkeypatch.setitem(pipeline("add", None).state.ns_per_thread, (32, 1, 1), nanoseconds / threads)
    commands = queue.commandBuffer()
    encoder = commands.computeCommandEncoder()
    encode_add(encoder, many, many, 1.0, threads)
    encoder.endEncoding()
    later = adding(queue, target)
    commands.commit()
    later.commit()
    later.waitUntilCompleted()
    assert asked == woken
    assert list(array(many)) == [1.0] * threads
