"""An exception may come at any bytecode of submitting, waiting and completing: nothing hangs, nothing runs twice."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import raise_at_every_bytecode

from mlx_native_py import softmetal as Metal

from .objects_kit import array, buffer, default_device, pipeline

INSIDE = (Path(Metal.__file__).parent, Path(contextlib.__file__))


@dataclass
class Scene:
    """A queue, a counter that kernels raise, and the command buffer under test."""

    queue: Any
    counter: Any
    event: Any
    commands: Any = None

    def counted(self) -> int:
        return int(array(self.counter, np.uint32)[0])


QUEUE: list[Any] = []


def scene(slots: int = 4) -> Scene:
    """The same queue each time, so that what one interrupt left behind meets the next."""
    device = default_device()
    if not QUEUE:
        QUEUE.append(device.newCommandQueueWithMaxCommandBufferCount_(slots))
    return Scene(QUEUE[0], buffer(np.zeros(1, np.uint32)), device.newSharedEvent())


def encode(queue: Any, counter: Any) -> Any:
    commands = queue.commandBuffer()
    encode_count(commands, counter)
    return commands


def encode_count(commands: Any, counter: Any) -> None:
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(pipeline("count"))
    encoder.setBuffer_offset_atIndex_(counter, 0, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
    encoder.endEncoding()


def later_work_runs(scene: Scene) -> None:
    """A command buffer behind the interrupted one completes, and the queue has all its slots."""
    event = scene.event.signaledValue()
    for number in range(6):
        counter = buffer(np.zeros(1, np.uint32))
        commands = encode(scene.queue, counter)
        if number % 2:
            commands.encodeSignalEvent_value_(scene.event, event + number)
        commands.commit()
        if number % 2:
            assert scene.event.waitUntilSignaledValue_timeoutMS_(event + number, 4000)
        commands.waitUntilCompleted()
        assert commands.status() == Metal.MTLCommandBufferStatusCompleted
        assert int(array(counter, np.uint32)[0]) == 1


def encoded() -> Scene:
    started = scene()
    started.commands = encode(started.queue, started.counter)
    return started


def committed() -> Scene:
    scene = encoded()
    scene.commands.encodeSignalEvent_value_(scene.event, 1)
    scene.commands.commit()
    return scene


def on_a_fresh_queue() -> Scene:
    """Nothing ran yet, so the queue has no thread."""
    device = default_device()
    queue = device.newCommandQueueWithMaxCommandBufferCount_(4)
    scene = Scene(queue, buffer(np.zeros(1, np.uint32)), device.newSharedEvent())
    scene.commands = encode(queue, scene.counter)
    return scene


def held_back() -> Scene:
    """The work cannot run before the CPU signals, a little later."""
    started = scene()
    started.commands = started.queue.commandBuffer()
    started.commands.encodeWaitForEvent_value_(started.event, 1)
    encode_count(started.commands, started.counter)
    started.commands.encodeSignalEvent_value_(started.event, 2)
    started.commands.commit()
    threading.Timer(0.003, started.event.setSignaledValue_, (1,)).start()
    return started


def without_a_thread() -> Scene:
    """Committed, but the queue's thread is played by the test."""
    scene = on_a_fresh_queue()
    scene.queue.state._started = True
    for add in (scene.commands.addScheduledHandler_, scene.commands.addCompletedHandler_):
        add(lambda _: None)
    scene.commands.encodeSignalEvent_value_(scene.event, 1)
    scene.commands.commit()
    return scene


def new(scene: Scene) -> None:
    scene.commands = scene.queue.commandBuffer()


def enqueue(scene: Scene) -> None:
    scene.commands.enqueue()


def commit(scene: Scene) -> None:
    scene.commands.commit()


def wait(scene: Scene) -> None:
    scene.commands.waitUntilCompleted()


def wait_scheduled(scene: Scene) -> None:
    scene.commands.waitUntilScheduled()


def wait_for_event(scene: Scene) -> None:
    scene.event.waitUntilSignaledValue_timeoutMS_(1, 4000)


def wait_for_second_value(scene: Scene) -> None:
    scene.event.waitUntilSignaledValue_timeoutMS_(2, 4000)


def commit_and_wait(scene: Scene) -> None:
    scene.commands.commit()
    scene.commands.waitUntilCompleted()


def complete(scene: Scene) -> None:
    scene.queue.state._advance()


def ends(scene: Scene) -> None:
    """Completed or failed, never run twice; the queue goes on, now with a thread."""
    scene.queue.state._started = False
    later_work_runs(scene)
    with contextlib.suppress(Metal.MetalMisuse):
        scene.commands.waitUntilCompleted()
    completed = scene.commands.status() == Metal.MTLCommandBufferStatusCompleted
    assert completed or "Interrupt" in scene.commands.error().localizedDescription()
    assert scene.counted() == 1 or (not completed and scene.counted() == 0)


def runs_once(scene: Scene) -> None:
    """What was committed runs, once; what was not can be committed again or dropped."""
    commands = scene.commands
    if commands.status() < Metal.MTLCommandBufferStatusCommitted:
        commands.commit()
    later_work_runs(scene)
    commands.waitUntilCompleted()
    assert (commands.status(), commands.error()) == (Metal.MTLCommandBufferStatusCompleted, None)
    assert scene.counted() == 1


def dropped(scene: Scene) -> None:
    scene.commands = None
    later_work_runs(scene)


@pytest.mark.parametrize(
    ("setup", "act", "check"),
    [
        (scene, new, dropped),
        (encoded, enqueue, runs_once),
        (encoded, enqueue, dropped),
        (encoded, commit, runs_once),
        (encoded, commit, dropped),
        (encoded, commit_and_wait, runs_once),
        (encoded, commit_and_wait, dropped),
        (on_a_fresh_queue, commit, runs_once),
        (without_a_thread, complete, ends),
        (committed, wait, runs_once),
        (held_back, wait, runs_once),
        (held_back, wait_scheduled, runs_once),
        (held_back, wait_for_second_value, runs_once),
        (committed, wait_scheduled, runs_once),
        (committed, wait_for_event, runs_once),
    ],
    ids=lambda each: each.__name__,
)
def test_an_exception_at_any_bytecode_breaks_nothing(setup: Any, act: Any, check: Any) -> None:
    kept_for_the_wait = act is complete
    tried = raise_at_every_bytecode(setup, act, check, inside=INSIDE, swallowed=lambda _: kept_for_the_wait)
    assert tried > 20


def test_hundreds_of_timer_interrupts_leave_the_queue_working(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Ctrl-C does, as often as the clock allows."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # some hit a finaliser, where Python drops them
    started, armed = scene(), [True]

    def ring(*_: Any) -> None:
        armed.clear()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    try:
        for number in range(400):
            armed.append(True)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003 + number % 7 * 0.0001)
                while armed:
                    commands = started.queue.commandBuffer()
                    encode_count(commands, started.counter)
                    commands.commit()
                    commands.waitUntilCompleted()
            except KeyboardInterrupt:
                continue
    finally:
        signal.signal(signal.SIGALRM, before)
    later_work_runs(started)


@pytest.mark.parametrize("make", ["computeCommandEncoder", "blitCommandEncoder"])
def test_an_encoder_that_was_never_complete_is_not_missed(make: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Metal it is one call, and no interrupt comes in between."""
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    left = 0

    def interrupt(frame: Any, event: str, _: Any) -> None:
        nonlocal left
        left -= event == "call"
        if left < 0 and event == "call":
            raise KeyboardInterrupt

    for calls in range(100):
        commands, left = default_device().newCommandQueue().commandBuffer(), calls
        sys.setprofile(interrupt)
        try:
            encoder = getattr(commands, make)()
        except KeyboardInterrupt:
            continue
        finally:
            sys.setprofile(None)
        encoder.endEncoding()
        break
    assert calls > 3
    assert told == []
