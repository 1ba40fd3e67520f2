"""What an encoder counts: dispatches, barriers, command buffers and syncs, each once and by its definition."""

from __future__ import annotations

from typing import Any

import pytest
from kit.encoding import floats, pipeline, soft_device
from kit.programs import numbers, pipelines

from mlx_native_py import Dispatch, MlxDevice, counters, settings
from mlx_native_py.encoder import CapturedBarrier
from mlx_native_py.errors import CommandBufferError

GETTERS = ("dispatch", "sync", "cmd_buf", "barrier", "auto_barrier", "auto_barrier_concurrent")


def figures() -> dict[str, int]:
    return {name: getattr(counters, f"{name}_count")() for name in GETTERS}


def test_each_call_counts_what_it_does(device: MlxDevice) -> None:
    y, fill = floats(device, 0, 0), pipeline(device, "fill")
    with counters.scope() as c:
        enc = device.command_encoder()
        assert (c.cmd_bufs, c.dispatches) == (1, 0)
        enc.memory_barrier()
        assert c.barriers == 0, "no pass is open"
        enc.dispatch(fill, y[:1], 1.0, threads=1)
        enc.dispatch(fill, y[1:], 1.0, threads=1)
        assert (c.dispatches, c.auto_concurrent, c.auto_barriers, c.barriers) == (2, 2, 0, 0)
        enc.dispatch(fill, y, 2.0, threads=2)
        assert (c.auto_concurrent, c.auto_barriers, c.barriers) == (2, 1, 1)
        enc.memory_barrier()
        assert (c.barriers, c.auto_barriers) == (2, 1)
        enc.dispatch(fill, y, 2.0, threads=2)
        assert (c.barriers, c.auto_concurrent) == (2, 3), "a barrier by hand is not repeated"
        enc.force_barrier_and_reset_tracker()
        assert (c.barriers, enc.mem_ranges_len()) == (3, 0)
        assert c.syncs == 0
        enc.commit_and_wait()
        assert (c.syncs, c.cmd_bufs, c.barrier_ns) == (1, 1, 0)
    assert enc.tally == c.tally


def test_what_counts_as_a_sync(device: MlxDevice) -> None:
    with counters.scope() as c:
        device.command_encoder().commit().wait()
        enc = device.command_encoder()
        enc.commit("label")
        enc.wait_until_completed()
        assert c.syncs == 0
        start, end = device.command_encoder().commit_wait_with_gpu_time()
        device.command_encoder().commit_and_wait("label")
        assert c.syncs == 2
    assert end >= start


def test_barrier_time_is_counted_when_asked_for(device: MlxDevice) -> None:
    with settings.override(profile_barriers=True):
        enc = device.command_encoder()
    enc.dispatch(pipeline(device, "fill"), floats(device, 1), 1.0, threads=1)
    enc.memory_barrier()
    assert enc.tally.barrier_ns > 0
    enc.discard()


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("by", ["setting", "argument"])
def test_automatic_barriers_can_be_turned_off(device: MlxDevice, gate: bool, by: str) -> None:
    y, fill = floats(device, 0, 0), pipeline(device, "fill")
    flag, option = ({"auto_barrier": gate}, {}) if by == "setting" else ({}, {"auto_barrier": gate})
    with settings.override(**flag), counters.scope() as c:
        enc = device.command_encoder(**option)
        for _ in range(2):
            enc.dispatch(fill, y, 1.0, threads=2)
        enc.discard()
    assert (c.auto_barriers, c.auto_concurrent, c.barriers) == ((1, 1, 1) if gate else (0, 0, 0))


def test_barriers_by_hand_are_not_automatic(device: MlxDevice) -> None:
    twist, x = pipelines(device, "twist"), numbers(device, 1)
    with counters.scope() as c, settings.override(auto_barrier=False), device.command_encoder() as enc:
        for _ in range(3):
            enc.dispatch(twist, x, threads=1)
            enc.memory_barrier()
    assert (c.auto_barriers, c.auto_concurrent, c.barriers, c.dispatches) == (0, 0, 3, 3)


def test_where_barriers_count(device: MlxDevice) -> None:
    counters.reset_counters()
    with counters.scope() as c:
        enc = device.command_encoder()
        enc.memory_barrier()
        assert c.barriers == 0, "no pass is open"
        enc.start_capture()
        for _ in range(3):
            enc.memory_barrier()
        assert (c.barriers, enc.take_capture()) == (0, [CapturedBarrier()] * 3)
        enc.dispatch(pipelines(device, "twist"), numbers(device, 1), threads=1)
        for _ in range(3):
            enc.memory_barrier()
        assert (c.barriers, c.barrier_ns, counters.barrier_total_ns()) == (3, 0, 0)
        enc.commit_and_wait()


def test_every_counter_by_its_definition(device: MlxDevice) -> None:
    twist, x, y = pipelines(device, "twist"), numbers(device, 1), numbers(device, 1)
    counters.reset_counters()
    assert set(figures().values()) == {0}
    enc = device.command_encoder()
    enc.dispatch(twist, x, threads=1)
    enc.dispatch(twist, y, threads=1)
    enc.dispatch(twist, x, threads=1)
    assert figures() == {
        **dict.fromkeys(GETTERS, 0),
        "dispatch": 3,
        "cmd_buf": 1,
        "barrier": 1,
        "auto_barrier": 1,
        "auto_barrier_concurrent": 2,
    }
    enc.commit().wait()
    enc.wait_until_completed()
    assert figures()["sync"] == 0, "waiting for what was committed is no sync"
    second = device.command_encoder()
    second.start_capture()
    second.dispatch(twist, x, threads=1)
    [node] = second.take_capture() or []
    before = figures()
    assert isinstance(node, Dispatch)
    second.replay_dispatch(node)
    assert figures()["dispatch"] == before["dispatch"] == 4, "counted when it was captured"
    second.commit_and_wait()
    assert (figures()["sync"], figures()["cmd_buf"]) == (1, 2)
    device.command_encoder().commit_wait_with_gpu_time()
    assert (figures()["sync"], figures()["cmd_buf"]) == (2, 3)
    counters.reset_counters()
    assert set(figures().values()) == {0}


def test_a_failing_command_buffer_counts_as_a_sync(soft: Any) -> None:
    with soft_device() as device, counters.scope() as c:
        enc = device.command_encoder()
        enc.dispatch(pipeline(device, "far"), device.empty(4), threads=1)
        with pytest.raises(CommandBufferError, match="'lost'.*far") as caught:
            enc.commit_and_wait(label="lost")
        assert (c.syncs, caught.value.label, caught.value.is_transient) == (1, "lost", True)
        with pytest.raises(CommandBufferError, match="lost"):
            enc.wait_until_completed()
        device.command_encoder().commit_and_wait()  # the device goes on
