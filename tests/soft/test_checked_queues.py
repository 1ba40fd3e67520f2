"""Checked mode finds what two queues do to the same bytes without an event, or a wait of the CPU, between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from mlx_native_py import softmetal
from mlx_native_py.softmetal.checked import MissingBarrier, Timeline, UnorderedQueues

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void put(device float *y, uint i [[thread_position_in_grid]]) { y[i] = i; }
kernel void take(device const float *x, device float *y, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }
kernel void count(device atomic_uint *n) { atomic_fetch_add_explicit(n, 1, memory_order_relaxed); }
"""
N = 64


@pytest.fixture(scope="module")
def device() -> Any:
    return softmetal.open_device(softmetal.SoftOptions(checked=True))


@pytest.fixture(scope="module")
def states(device: Any) -> dict[str, Any]:
    library, error = device.newLibraryWithSource_options_error_(SOURCE, None, None)
    assert library is not None, error
    made = {}
    for name in ("put", "take", "count"):
        made[name], error = device.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_(name), None)
        assert made[name] is not None, error
    return made


def _buffer(device: Any, label: str) -> Any:
    buffer = device.newBufferWithLength_options_(4 * N, 0)
    buffer.setLabel_(label)
    return buffer


def _commands(queue: Any, state: Any, *buffers: Any) -> Any:
    commands = queue.commandBuffer()
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(state)
    for slot, buffer in enumerate(buffers):
        encoder.setBuffer_offset_atIndex_(buffer, 0, slot)
    encoder.dispatchThreads_threadsPerThreadgroup_((N, 1, 1), (32, 1, 1))
    encoder.endEncoding()
    return commands


def _finish(*commands: Any) -> None:
    """Waits for all; raises the first finding."""
    findings: list[BaseException] = []
    for each in commands:
        try:
            each.waitUntilCompleted()
        except MissingBarrier as found:
            findings.append(found)
    if findings:
        raise findings[0]


def test_a_write_and_a_read_of_two_queues_are_named(device: Any, states: dict[str, Any]) -> None:
    x, y = _buffer(device, "shared"), _buffer(device, "own")
    one, two = device.newCommandQueue(), device.newCommandQueue()
    one.setLabel_("first")
    two.setLabel_("second")
    put, take = _commands(one, states["put"], x), _commands(two, states["take"], x, y)
    put.commit()
    take.commit()
    with pytest.raises(UnorderedQueues) as caught:
        _finish(put, take)
    found = caught.value
    assert {found.first.kernel, found.second.kernel} == {"put", "take"}
    assert found.buffer == "buffer 'shared'"
    assert found.span == (0, 4 * N)
    assert "queue 'first'" in str(found)
    assert "queue 'second'" in str(found)
    assert "event" in str(found)


def test_it_does_not_matter_that_the_first_had_long_ended(device: Any, states: dict[str, Any]) -> None:
    """Nothing but luck put them in order, as long as nobody looked."""
    x, y = _buffer(device, "x"), _buffer(device, "y")
    one, two = device.newCommandQueue(), device.newCommandQueue()
    put, other = _commands(one, states["put"], x), _commands(one, states["put"], y)
    put.commit()
    other.commit()
    while not other.GPUEndTime():
        pass
    take = _commands(two, states["take"], x, y)
    take.commit()
    with pytest.raises(UnorderedQueues):
        _finish(take)


def _by_event(device: Any, one: Any, two: Any) -> None:
    event = device.newEvent()
    one.encodeSignalEvent_value_(event, 3)
    one.commit()
    behind = two.commandQueue().commandBuffer()
    behind.encodeWaitForEvent_value_(event, 3)
    behind.commit()
    two.commit()


def _by_two_events(device: Any, one: Any, two: Any) -> None:
    """Over a third queue."""
    first, second, middle = device.newEvent(), device.newEvent(), device.newCommandQueue().commandBuffer()
    one.encodeSignalEvent_value_(first, 1)
    middle.encodeWaitForEvent_value_(first, 1)
    middle.encodeSignalEvent_value_(second, 1)
    behind = two.commandQueue().commandBuffer()
    behind.encodeWaitForEvent_value_(second, 1)
    for each in (one, middle, behind, two):
        each.commit()


def _by_waiting(device: Any, one: Any, two: Any) -> None:
    one.commit()
    one.waitUntilCompleted()
    two.commit()


def _by_looking(device: Any, one: Any, two: Any) -> None:
    one.commit()
    while one.status() < 4:
        pass
    two.commit()


def _by_shared_event(device: Any, one: Any, two: Any) -> None:
    event = device.newSharedEvent()
    one.encodeSignalEvent_value_(event, 1)
    one.commit()
    assert event.waitUntilSignaledValue_timeoutMS_(1, 60_000)
    two.commit()


def _by_the_cpus_signal(device: Any, one: Any, two: Any) -> None:
    event = device.newSharedEvent()
    behind = two.commandQueue().commandBuffer()
    behind.encodeWaitForEvent_value_(event, 1)
    behind.commit()
    two.commit()
    one.commit()
    one.waitUntilCompleted()
    event.setSignaledValue_(1)


def _by_handler(device: Any, one: Any, two: Any) -> None:
    one.addCompletedHandler_(lambda commands: two.commit())
    one.commit()
    one.waitUntilCompleted()


ORDERS = [_by_event, _by_two_events, _by_waiting, _by_looking, _by_shared_event, _by_the_cpus_signal, _by_handler]


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_in_order_is_silent(
    device: Any, states: dict[str, Any], order: Callable[[Any, Any, Any], None]
) -> None:
    x, y = _buffer(device, "x"), _buffer(device, "y")
    one, two = device.newCommandQueue(), device.newCommandQueue()
    put, take = _commands(one, states["put"], x), _commands(two, states["take"], x, y)
    order(device, put, take)
    _finish(put, take)


def test_other_bytes_reads_and_atomics_are_silent(device: Any, states: dict[str, Any]) -> None:
    x, n = _buffer(device, "x"), _buffer(device, "n")
    one, two = device.newCommandQueue(), device.newCommandQueue()
    works = [
        _commands(queue, *rest)
        for queue in (one, two)
        for rest in ((states["take"], x, _buffer(device, "own")), (states["count"], n))
    ]
    for each in works:
        each.commit()
    _finish(*works)


def test_an_event_orders_only_what_came_before_it(device: Any, states: dict[str, Any]) -> None:
    x, y = _buffer(device, "x"), _buffer(device, "y")
    one, two = device.newCommandQueue(), device.newCommandQueue()
    event = device.newEvent()
    early, late = one.commandBuffer(), _commands(one, states["put"], x)
    early.encodeSignalEvent_value_(event, 1)
    behind, take = two.commandBuffer(), _commands(two, states["take"], x, y)
    behind.encodeWaitForEvent_value_(event, 1)
    for each in (early, late, behind, take):
        each.commit()
    with pytest.raises(UnorderedQueues):
        _finish(early, late, behind, take)


def test_a_blit_counts_as_well(device: Any, states: dict[str, Any]) -> None:
    x, y = _buffer(device, "x"), _buffer(device, "y")
    put, blit = _commands(device.newCommandQueue(), states["put"], x), device.newCommandQueue().commandBuffer()
    encoder = blit.blitCommandEncoder()
    encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(x, 16, y, 0, 32)
    encoder.endEncoding()
    put.commit()
    blit.commit()
    with pytest.raises(UnorderedQueues, match=r"bytes \[16, 48\) of buffer 'x'"):
        _finish(put, blit)


def test_a_finaliser_may_look_at_work_in_the_middle_of_all() -> None:
    timeline = Timeline()

    def inside() -> None:
        with timeline.lock:  # as when the garbage collector runs while others have it
            timeline.saw({1: 1})

    thread = threading.Thread(target=inside, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
