"""Passes of one queue that share memory which Metal does not track need fences, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mlx_native_py.errors import MissingBarrierError
from mlx_native_py.softmetal.checked import MissingFence
from mlx_native_py.softmetal.checked.fences import FenceOrder

from .checked_driver import buffer, device, pipeline
from .checked_programs import HEAD, floats

pytestmark = pytest.mark.soft
SOURCE = HEAD + (
    "kernel void copy(device const float *a, device float *b, uint i [[thread_position_in_grid]]) { b[i] = a[i]; }"
)
BYTES, UNTRACKED = 256, 1 << 8


class Chained:
    """A fence."""

    passes: frozenset[int] = frozenset()


class Work:
    """Command buffers of one queue, and some memory: `x` is untracked."""

    def __init__(self, options: int = UNTRACKED) -> None:
        self.queue = device().newCommandQueue()
        self.a, self.y = buffer(floats(64)), device().newBufferWithLength_options_(BYTES, 0)
        self.x = device().newBufferWithLength_options_(BYTES, options)
        self.fence, self.other = device().newFence(), device().newFence()
        self.commands = self.queue.commandBuffer()

    def copy(self, source: Any, target: Any, wait: Any = None, update: Any = None, offset: int = 0) -> None:
        """In a pass of its own."""
        encoder = self.commands.computeCommandEncoder()
        if wait is not None:
            encoder.waitForFence_(wait)
        encoder.setComputePipelineState_(pipeline(SOURCE, "copy"))
        encoder.setBuffer_offset_atIndex_(source, 0, 0)
        encoder.setBuffer_offset_atIndex_(target, offset, 1)
        encoder.dispatchThreads_threadsPerThreadgroup_(((BYTES - offset) // 4, 1, 1), (32, 1, 1))
        if update is not None:
            encoder.updateFence_(update)
        encoder.endEncoding()

    def next(self, *, wait: bool = False) -> None:
        self.commands.commit()
        if wait:
            self.commands.waitUntilCompleted()
        self.commands = self.queue.commandBuffer()

    def end(self) -> None:
        self.commands.commit()
        self.commands.waitUntilCompleted()
        assert self.commands.error() is None


def _write_and_read(work: Work) -> None:
    work.copy(work.a, work.x)
    work.copy(work.x, work.y)


def _two_command_buffers(work: Work) -> None:
    work.copy(work.a, work.x)
    work.next()
    work.copy(work.x, work.y)


def _written_twice(work: Work) -> None:
    work.copy(work.a, work.x)
    work.copy(work.a, work.x)


def _written_after_read(work: Work) -> None:
    work.copy(work.x, work.y)
    work.copy(work.a, work.x)


def _another_fence(work: Work) -> None:
    work.copy(work.a, work.x, update=work.fence)
    work.copy(work.x, work.y, wait=work.other)


def _fence_of_before(work: Work) -> None:
    work.copy(work.a, work.y, update=work.fence)
    work.copy(work.a, work.x)
    work.copy(work.x, work.y, wait=work.fence)


def _blit(work: Work) -> None:
    encoder = work.commands.blitCommandEncoder()
    encoder.fillBuffer_range_value_(work.x, (0, BYTES), 1)
    encoder.endEncoding()
    work.copy(work.x, work.y)


MISSING: dict[str, Callable[[Work], None]] = {
    "written, then read": _write_and_read,
    "in two command buffers": _two_command_buffers,
    "written twice": _written_twice,
    "written after it was read": _written_after_read,
    "another fence": _another_fence,
    "a fence updated too early": _fence_of_before,
    "filled by a blit": _blit,
}


@pytest.mark.parametrize("name", MISSING)
def test_what_needs_a_fence_is_told(name: str) -> None:
    work = Work()
    MISSING[name](work)
    with pytest.raises(MissingFence) as caught:
        work.end()
    assert caught.value.span == (0, BYTES)
    assert "updateFence_" in str(caught.value) and "missing fence" in str(caught.value)
    assert caught.value.raised_as is MissingBarrierError


def test_tracked_memory_needs_none() -> None:
    for steps in (_write_and_read, _written_twice, _written_after_read, _blit):
        work = Work(options=0)
        steps(work)
        work.end()


def _fenced(work: Work) -> None:
    work.copy(work.a, work.x, update=work.fence)
    work.copy(work.x, work.y, wait=work.fence)


def _over_another_pass(work: Work) -> None:
    work.copy(work.a, work.x, update=work.fence)
    work.copy(work.a, work.y, wait=work.fence, update=work.other)
    work.copy(work.x, work.y, wait=work.other)


def _over_command_buffers(work: Work) -> None:
    work.copy(work.a, work.x, update=work.fence)
    work.next()
    work.copy(work.x, work.y, wait=work.fence)


def _waited_for(work: Work) -> None:
    work.copy(work.a, work.x)
    work.next(wait=True)
    work.copy(work.x, work.y)


def _read_twice(work: Work) -> None:
    work.copy(work.x, work.y)
    work.copy(work.x, work.y)


def _apart(work: Work) -> None:
    work.copy(work.a, work.x, offset=128)
    encoder = work.commands.blitCommandEncoder()
    encoder.fillBuffer_range_value_(work.x, (0, 128), 1)
    encoder.endEncoding()


def _event(work: Work) -> None:
    event = device().newEvent()
    work.copy(work.a, work.x)
    work.commands.encodeSignalEvent_value_(event, 1)
    work.commands.encodeWaitForEvent_value_(event, 1)
    work.copy(work.x, work.y)


RIGHT: dict[str, Callable[[Work], None]] = {
    "a fence": _fenced,
    "by way of another pass": _over_another_pass,
    "a fence between command buffers": _over_command_buffers,
    "a wait of the CPU": _waited_for,
    "read twice": _read_twice,
    "other bytes": _apart,
    "an event": _event,
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_in_order_is_silent(name: str) -> None:
    work = Work()
    RIGHT[name](work)
    work.end()


def test_a_fence_of_another_queue_orders_nothing() -> None:
    work, elsewhere = Work(), Work()
    elsewhere.copy(elsewhere.a, elsewhere.y, update=work.fence)
    elsewhere.end()
    work.copy(work.a, work.x)
    work.copy(work.x, work.y, wait=work.fence)
    with pytest.raises(MissingFence):
        work.end()


def test_a_long_chain_of_passes_is_forgotten() -> None:
    order, fence = FenceOrder(), Chained()
    for number in range(1000):
        order.begin(object(), [("wait", fence), ("update", fence)], number)
    assert len(fence.passes) <= 100


def test_memory_of_heaps_is_not_tracked() -> None:
    from mlx_native_py.softmetal.objects.heap import MTLHeapDescriptor

    descriptor = MTLHeapDescriptor.alloc().init()
    descriptor.setSize_(1 << 16)
    descriptor.setStorageMode_(0)
    heap = device().newHeapWithDescriptor_(descriptor)
    work = Work()
    work.x = heap.newBufferWithLength_options_(BYTES, 0)
    _write_and_read(work)
    with pytest.raises(MissingFence):
        work.end()
