"""Queues and command buffers: order, asynchrony, status, handlers, events, and errors that stay in their place."""

from __future__ import annotations

import gc
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal

from .objects_kit import array, buffer, encode_add, encode_note, endless, finish


def noting(queue: Any, log: Any, name: int) -> Any:
    command_buffer = queue.commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    encode_note(encoder, log, name)
    encoder.endEncoding()
    return command_buffer


def test_status_times_and_result(queue: Any) -> None:
    source, target = buffer(np.arange(100, dtype=np.float32)), buffer(np.zeros(100, np.float32))
    command_buffer = queue.commandBuffer()
    command_buffer.setLabel_("one")
    assert (command_buffer.status(), command_buffer.GPUStartTime()) == (Metal.MTLCommandBufferStatusNotEnqueued, 0.0)
    encoder = command_buffer.computeCommandEncoder()
    encode_add(encoder, source, target, 2.5, 100)
    encoder.endEncoding()
    before = time.monotonic()
    finish(command_buffer)
    assert command_buffer.status() == Metal.MTLCommandBufferStatusCompleted
    assert command_buffer.error() is None
    assert before <= command_buffer.kernelStartTime() <= command_buffer.GPUStartTime()
    assert command_buffer.GPUStartTime() < command_buffer.GPUEndTime() <= time.monotonic()
    assert np.array_equal(array(target), np.arange(100, dtype=np.float32) + 2.5)


def test_work_is_asynchronous_and_python_goes_on(device: Any, queue: Any) -> None:
    stop = buffer(np.zeros(2, np.uint32))
    running = endless(queue, stop)
    running.waitUntilScheduled()
    assert {running.status() for _ in range(1000)} == {Metal.MTLCommandBufferStatusScheduled}
    array(stop, np.uint32)[0] = 1
    running.waitUntilCompleted()
    assert running.status() == Metal.MTLCommandBufferStatusCompleted


def test_queues_run_beside_each_other(device: Any, queue: Any) -> None:
    stop, other = buffer(np.zeros(2, np.uint32)), device.newCommandQueue()
    running = endless(queue, stop)
    running.waitUntilScheduled()
    log = buffer(np.zeros(4, np.uint32))
    finish(noting(other, log, 5))
    assert list(array(log, np.uint32)[:2]) == [1, 5]
    assert running.status() == Metal.MTLCommandBufferStatusScheduled
    array(stop, np.uint32)[0] = 1
    running.waitUntilCompleted()


def test_enqueue_decides_the_order(queue: Any) -> None:
    log = buffer(np.zeros(8, np.uint32))
    first, second, third = (noting(queue, log, name) for name in (1, 2, 3))
    first.enqueue()
    assert first.status() == Metal.MTLCommandBufferStatusEnqueued
    second.enqueue()
    third.commit()
    second.commit()
    time.sleep(0.05)
    assert third.status() == second.status() == Metal.MTLCommandBufferStatusCommitted
    first.commit()
    third.waitUntilCompleted()
    assert list(array(log, np.uint32)[:4]) == [3, 1, 2, 3]


def test_handlers_run_on_the_worker_before_the_wait_returns(queue: Any) -> None:
    seen: list[Any] = []
    command_buffer = queue.commandBuffer()
    command_buffer.addScheduledHandler_(lambda cb: seen.append(("scheduled", cb.status(), threading.current_thread())))
    command_buffer.addCompletedHandler_(lambda cb: seen.append(("completed", cb.status(), threading.current_thread())))
    finish(command_buffer)
    assert [(name, status) for name, status, _ in seen] == [("scheduled", 3), ("completed", 4)]
    assert threading.main_thread() not in {thread for _, _, thread in seen}


def test_an_exception_in_a_handler_is_raised_by_the_wait(queue: Any) -> None:
    def fail(_: Any) -> None:
        raise KeyError("mine")

    command_buffer = queue.commandBuffer()
    command_buffer.addCompletedHandler_(fail)
    command_buffer.commit()
    with pytest.raises(Metal.MetalMisuse, match="handler") as raised:
        command_buffer.waitUntilCompleted()
    assert isinstance(raised.value.__cause__, KeyError)
    command_buffer.waitUntilCompleted()


def test_waiting_inside_a_handler_is_refused(queue: Any) -> None:
    command_buffer = queue.commandBuffer()
    command_buffer.addScheduledHandler_(lambda cb: cb.waitUntilCompleted())
    command_buffer.commit()
    with pytest.raises(Metal.MetalMisuse) as raised:
        command_buffer.waitUntilCompleted()
    assert "on its queue's thread would wait for ever" in str(raised.value.__cause__)


def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    errors: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: errors.append(raised.exc_value))
    return errors


def test_a_handler_error_that_nobody_waits_for_is_reported(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    errors, done = unraisable(monkeypatch), threading.Event()

    def fail(_: Any) -> None:
        done.set()
        raise KeyError("mine")

    command_buffer = queue.commandBuffer()
    command_buffer.addCompletedHandler_(fail)
    command_buffer.commit()
    del command_buffer
    finish(queue.commandBuffer())
    gc.collect()
    assert ["nobody waited" in str(error) for error in errors] == [True]


def test_a_lost_encoder_is_reported_and_blocks_the_commit(queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = unraisable(monkeypatch)
    command_buffer = queue.commandBuffer()
    command_buffer.computeCommandEncoder()
    assert ["without endEncoding" in str(error) for error in errors] == [True]
    with pytest.raises(Metal.MetalMisuse, match="without endEncoding"):
        command_buffer.commit()


def misuse_of_states(queue: Any) -> list[tuple[str, Any]]:
    def committed() -> Any:
        command_buffer = queue.commandBuffer()
        finish(command_buffer)
        return command_buffer

    def encoding(call: Any) -> None:
        command_buffer = queue.commandBuffer()
        encoder = command_buffer.computeCommandEncoder()
        try:
            call(command_buffer)
        finally:
            encoder.endEncoding()

    event = queue.device().newSharedEvent()
    return [
        ("commit .* completed already", lambda: committed().commit()),
        ("enqueue", lambda: committed().enqueue()),
        ("computeCommandEncoder", lambda: committed().computeCommandEncoder()),
        ("blitCommandEncoder", lambda: committed().blitCommandEncoder()),
        ("addCompletedHandler_", lambda: committed().addCompletedHandler_(print)),
        ("addScheduledHandler_", lambda: committed().addScheduledHandler_(print)),
        ("encodeSignalEvent_value_", lambda: committed().encodeSignalEvent_value_(event, 1)),
        ("commit .* encoder is open", lambda: encoding(lambda cb: cb.commit())),
        ("encoder is open", lambda: encoding(lambda cb: cb.computeCommandEncoder())),
        ("encoder is open", lambda: encoding(lambda cb: cb.blitCommandEncoder())),
        ("encoder is open", lambda: encoding(lambda cb: cb.encodeSignalEvent_value_(event, 1))),
        ("encoder is open", lambda: encoding(lambda cb: cb.encodeWaitForEvent_value_(event, 1))),
        ("wait for ever", lambda: queue.commandBuffer().waitUntilCompleted()),
        ("wait for ever", lambda: queue.commandBuffer().waitUntilScheduled()),
        ("dispatchType 2", lambda: queue.commandBuffer().computeCommandEncoderWithDispatchType_(2)),
    ]


def test_misuse_of_states_is_refused(queue: Any) -> None:
    for message, call in misuse_of_states(queue):
        with pytest.raises(Metal.MetalMisuse, match=message):
            call()


def test_a_full_queue_waits_for_work_to_end(device: Any) -> None:
    queue, stop = device.newCommandQueueWithMaxCommandBufferCount_(2), buffer(np.zeros(2, np.uint32))
    first, second = endless(queue, stop), queue.commandBuffer()
    begin = time.monotonic()
    threading.Timer(0.2, lambda: array(stop, np.uint32).__setitem__(0, 1)).start()
    queue.commandBuffer()
    assert time.monotonic() - begin > 0.1
    assert first.status() == Metal.MTLCommandBufferStatusCompleted
    del second


def test_a_queue_full_of_uncommitted_buffers_says_so() -> None:
    device = Metal.open_device(Metal.SoftOptions(queue_patience_seconds=0.2))
    queue = device.newCommandQueue()
    held = [queue.commandBuffer() for _ in range(64)]
    held[0].enqueue()
    with pytest.raises(Metal.QueueFull, match="all 64 .* 63 not enqueued, 1 enqueued"):
        queue.commandBuffer()
    del held[5]  # a dropped one gives its slot back
    assert queue.commandBuffer() is not None


def test_a_handler_on_a_full_queue_gets_an_error() -> None:
    queue = Metal.open_device(Metal.SoftOptions(queue_patience_seconds=0.2)).newCommandQueueWithMaxCommandBufferCount_(
        1
    )
    command_buffer = queue.commandBuffer()
    command_buffer.addCompletedHandler_(lambda _: queue.commandBuffer())
    command_buffer.commit()
    with pytest.raises(Metal.MetalMisuse, match="in the handler that asks"):
        command_buffer.waitUntilCompleted()


def test_events_order_queues_and_the_cpu(device: Any) -> None:
    event, log = device.newSharedEvent(), buffer(np.zeros(8, np.uint32))
    early, late = device.newCommandQueue(), device.newCommandQueue()
    waiting = late.commandBuffer()
    waiting.encodeWaitForEvent_value_(event, 2)
    encoder = waiting.computeCommandEncoder()
    encode_note(encoder, log, 9)
    encoder.endEncoding()
    waiting.encodeSignalEvent_value_(event, 3)
    waiting.commit()
    assert not event.waitUntilSignaledValue_timeoutMS_(3, 50)
    first = noting(early, log, 8)
    first.encodeSignalEvent_value_(event, 2)
    first.commit()
    assert event.waitUntilSignaledValue_timeoutMS_(3, 10_000)
    assert list(array(log, np.uint32)[:3]) == [2, 8, 9]
    assert event.signaledValue() == 3
    last = late.commandBuffer()
    last.encodeWaitForEvent_value_(event, 10)
    last.commit()
    event.setSignaledValue_(10)
    last.waitUntilCompleted()


def test_listeners_hear_of_values(device: Any) -> None:
    event, listener, heard = device.newSharedEvent(), Metal.MTLSharedEventListener.alloc().init(), threading.Event()
    values: list[int] = []

    def hear(_: Any, value: int) -> None:
        values.append(value)
        heard.set()

    event.notifyListener_atValue_block_(listener, 4, hear)
    event.setSignaledValue_(3)
    assert not heard.wait(0.05)
    event.setSignaledValue_(5)
    assert heard.wait(60)
    assert values == [5]


def test_dropped_command_buffers_leave_their_slots_behind_one_that_is_held() -> None:
    device: Any = Metal.open_device(Metal.SoftOptions(queue_patience_seconds=0.2))
    queue = device.newCommandQueueWithMaxCommandBufferCount_(4)
    first = queue.commandBuffer()
    first.enqueue()
    for _ in range(8):
        queue.commandBuffer().enqueue()
    first.commit()
    first.waitUntilCompleted()
