"""Tickets: done or not, interruptible waits, awaiting, GPU times, and errors that nobody can overlook."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from kit.encoding import floats, pipeline, soft_device
from kit.programs import numbers, pipelines

from mlx_native_py import MlxDevice, softmetal
from mlx_native_py.encoder import Ticket
from mlx_native_py.errors import CommandBufferError, DataRaceError, EncoderStateError, OutOfBoundsError, WaitTimeout
from mlx_native_py.softmetal.checked import OutOfBounds


def fail(device: MlxDevice, label: str | None = None) -> Ticket:
    """Work that the GPU gives up on."""
    enc = device.command_encoder()
    enc.dispatch(pipeline(device, "fill"), floats(device, 0), 1.0, threads=1)
    enc.dispatch(pipeline(device, "far"), floats(device, 0), threads=1)
    return enc.commit(label)


def endless(device: MlxDevice) -> tuple[Ticket, Any]:
    """Work that goes on until the buffer's first element is set."""
    stop = device.alloc_buffer(8, "u32", 2)
    enc = device.command_encoder()
    enc.dispatch(pipeline(device, "endless"), stop, threads=1)
    return enc.commit("endless"), stop


def test_a_ticket_tells_when_the_work_is_done(device: MlxDevice) -> None:
    y = floats(device, 0)
    enc = device.command_encoder()
    enc.dispatch(pipeline(device, "fill"), y, 1.0, threads=1)
    ticket = enc.commit("named")
    ticket.wait(timeout=30)
    assert ticket.done() and ticket.error is None and ticket.label == "named"
    assert y.numpy()[0] == 1.0
    assert ticket.gpu_time >= 0.0 and ticket.gpu_interval[1] >= ticket.gpu_interval[0] > 0.0
    ticket.wait()
    enc.wait_until_completed(timeout=1)


@pytest.mark.soft
def test_a_wait_can_run_out_of_time() -> None:
    with soft_device() as device:
        ticket, stop = endless(device)
        assert not ticket.done()
        with pytest.raises(EncoderStateError, match="not done"):
            _ = ticket.gpu_time
        with pytest.raises(WaitTimeout, match="'endless' of 1 dispatch is not done after 0.05 s"):
            ticket.wait(timeout=0.05)
        with pytest.raises(WaitTimeout):
            ticket.wait(timeout=0)
        assert not ticket.done()
        stop.numpy(wait=False)[0] = 1
        ticket.wait(timeout=30)


def test_a_wait_for_slow_work_runs_out_of_time_on_every_device(device: MlxDevice) -> None:
    slow, x = pipelines(device, "slow"), numbers(device, 0)
    enc = device.command_encoder()
    enc.dispatch(slow, x, 60_000_000, threads=1, group=1)
    ticket = enc.commit(label="slow")
    with pytest.raises(WaitTimeout, match="'slow'.*0.01"):
        ticket.wait(timeout=0.01)
    ticket.wait()
    ticket.wait(timeout=0)
    assert ticket.done()


@pytest.mark.soft
def test_awaiting_leaves_others_their_turn() -> None:
    with soft_device() as device:
        ticket, stop = endless(device)

        async def release() -> None:
            await asyncio.sleep(0.01)
            stop.numpy(wait=False)[0] = 1

        async def both() -> None:
            await asyncio.gather(release(), _await(ticket))

        async def _await(awaited: Ticket) -> None:
            await awaited

        asyncio.run(asyncio.wait_for(both(), 30))
        assert ticket.done()


def test_tickets_can_be_awaited(device: MlxDevice) -> None:
    twist, slow = pipelines(device, "twist", "slow")
    x, y = numbers(device, 1), numbers(device, 0)

    async def step(rounds: int) -> float:
        enc = device.command_encoder()
        enc.dispatch(slow, y, rounds, threads=1, group=1)
        enc.dispatch(twist, x, threads=1)
        ticket = enc.commit()
        await ticket
        assert ticket.done()
        return ticket.gpu_time

    async def main() -> int:
        beats = 0

        async def heart() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.001)

        beating = asyncio.create_task(heart())
        times = await asyncio.gather(*(step(20_000_000) for _ in range(4)))
        beating.cancel()
        assert min(times) > 0
        return beats

    assert asyncio.run(main()) > 2, "the loop went on while the GPU worked"
    assert x.numpy()[0] == (((1 * 5 + 1) * 5 + 1) * 5 + 1) * 5 + 1


def test_awaiting_raises_what_went_wrong(soft: Any) -> None:
    with soft_device() as device:

        async def main() -> None:
            await fail(device, "awaited")

        with pytest.raises(RuntimeError, match="awaited"):
            asyncio.run(main())


@pytest.mark.soft
def test_an_error_carries_code_label_and_dispatches() -> None:
    with soft_device() as device:
        ticket = fail(device, "broken")
        for _ in range(2):
            with pytest.raises(CommandBufferError) as caught:
                ticket.wait()
        error = caught.value
        assert (error.code, error.label) == (softmetal.MTLCommandBufferErrorPageFault, "broken")
        assert error.dispatches == ("fill", "far") and error.is_transient
        assert ticket.done() and ticket.error is error
        device.command_encoder().commit_and_wait()


@pytest.mark.soft
def test_an_error_that_nobody_waited_for_is_raised_by_the_next_wait() -> None:
    with soft_device() as device:
        fail(device, "first")
        fail(device, "second")
        with pytest.raises(CommandBufferError, match="'first'") as caught:
            device.command_encoder().commit_and_wait("fine")
        assert any("'second'" in note for note in caught.value.__notes__)
        device.command_encoder().commit_and_wait()


@pytest.mark.soft
def test_closing_a_device_raises_what_nobody_saw() -> None:
    device = soft_device()
    fail(device, "unseen")
    with pytest.raises(CommandBufferError, match="unseen"):
        device.close()
    device.close()


@pytest.mark.soft
def test_commit_and_wait_raises_its_own_error_first() -> None:
    with soft_device() as device:
        fail(device, "earlier")
        enc = device.command_encoder()
        enc.dispatch(pipeline(device, "far"), floats(device, 0), threads=1)
        with pytest.raises(CommandBufferError, match="'own'") as caught:
            enc.commit_and_wait("own")
        assert any("'earlier'" in note for note in caught.value.__notes__)


@pytest.mark.soft
def test_what_checked_mode_finds_is_the_cause() -> None:
    with soft_device(checked=True) as device:
        ticket = fail(device, "checked")
        with pytest.raises(OutOfBoundsError, match="far") as caught:
            ticket.wait()
        assert isinstance(caught.value, IndexError) and isinstance(caught.value.__cause__, OutOfBounds)


@pytest.mark.soft
def test_a_race_is_raised_by_its_name() -> None:
    source = "kernel void race(device uint *y, uint i [[thread_position_in_grid]]) { y[0] += i; }"
    with soft_device(checked=True) as device:
        with pytest.raises(DataRaceError, match="race") as caught:
            device.compile(source).race(np.zeros(1, np.uint32), threads=64)
        assert caught.value.__cause__ is not None


@pytest.mark.soft
def test_without_timed_event_waits_the_status_is_polled() -> None:
    profile = softmetal.DeviceProfile(missing=frozenset({"waitUntilSignaledValue_timeoutMS_"}))
    with soft_device(profile) as device:
        if device.capabilities.shared_event_wait:
            device.submissions._can_wait = False
        ticket, stop = endless(device)
        with pytest.raises(WaitTimeout):
            ticket.wait(timeout=0.02)
        stop.numpy(wait=False)[0] = 1
        ticket.wait(timeout=30)


def test_many_commits_without_a_wait_pile_nothing_up(device: MlxDevice) -> None:
    y, fill = floats(device, 0), pipeline(device, "fill")
    for value in range(300):
        enc = device.command_encoder()
        enc.dispatch(fill, y, float(value), threads=1)
        enc.commit()
    assert len(device.submissions._in_flight) <= 64
    device.command_encoder().commit_and_wait()
    assert y.numpy()[0] == 299.0 and not device.submissions._in_flight


def test_another_thread_may_wait(device: MlxDevice) -> None:
    ticket = device.command_encoder().commit()
    seen: list[bool] = []

    def wait() -> None:
        ticket.wait()
        seen.append(ticket.done())

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 4


EXITS = """
import sys
from mlx_native_py import MlxDevice
device = MlxDevice("soft")
device.kernels.register_source("kit", '''#include <metal_stdlib>
kernel void endless(device volatile uint *b [[buffer(0)]]) { while (b[0] == 0) { b[1] += 1; } }
kernel void one(device uint *b [[buffer(0)]]) { b[0] = 1; }''')
buffer = device.alloc_buffer(8, "u32", 2)
enc = device.command_encoder()
enc.dispatch(device.kernels.get_pipeline("one"), buffer, threads=1)
if sys.argv[1] == "in flight":
    other = device.command_encoder()
    other.dispatch(device.kernels.get_pipeline("endless"), device.alloc_buffer(8, "u32", 2), threads=1)
    ticket = other.commit()
if sys.argv[1] == "cycle":
    held = [device, enc]
    held.append(held)
    del device, enc, buffer
"""


@pytest.mark.soft
@pytest.mark.parametrize("state", ["open", "in flight", "cycle"])
def test_the_process_ends_quietly_with_work_under_way(state: str) -> None:
    ended = subprocess.run([sys.executable, "-c", EXITS, state], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr.decode()) == (0, "")


@pytest.mark.soft
def test_a_forked_child_is_refused() -> None:
    program = EXITS + (
        "import os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    refused = 0\n"
        "    for call in (device.command_encoder, enc.commit):\n"
        "        try:\n"
        "            call()\n"
        "        except RuntimeError as error:\n"
        "            refused += type(error).__name__ == 'ForkedProcessError'\n"
        "    os._exit(refused)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 2)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, "open"], capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
