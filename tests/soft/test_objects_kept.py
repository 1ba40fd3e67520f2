"""Replaying an indirect command buffer keeps its launches, until anything they depend on changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.execution.bindings import Bindings
from mlx_native_py.softmetal.execution.launches import LaunchBatch

from .objects_kit import array, buffer, default_device, finish, pipeline

BOTH = Metal.MTLResourceUsageRead | Metal.MTLResourceUsageWrite
COUNT = 424


class Recorded:
    """Commands that each raise one counter, and a residency set with the counters."""

    def __init__(self, count: int, counters: int) -> None:
        device = default_device()
        self.queue = device.newCommandQueue()
        self.counters = [buffer(np.zeros(1, np.uint32)) for _ in range(counters)]
        self.residency, _ = device.newResidencySetWithDescriptor_error_(Metal.MTLResidencySetDescriptor.new(), None)
        self.residency.addAllocations_count_(self.counters, counters)
        self.residency.commit()
        self.queue.addResidencySet_(self.residency)
        descriptor = Metal.MTLIndirectCommandBufferDescriptor.new()
        descriptor.setCommandTypes_(Metal.MTLIndirectCommandTypeConcurrentDispatchThreads)
        descriptor.setInheritBuffers_(False)
        descriptor.setInheritPipelineState_(False)
        self.commands = device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(descriptor, count, 0)
        for index in range(count):
            self.encode(index, self.counters[index % counters])

    def encode(self, index: int, counter: Any, threads: int = 1) -> None:
        command = self.commands.indirectComputeCommandAtIndex_(index)
        command.setComputePipelineState_(pipeline("count", None, True))
        command.setKernelBuffer_offset_atIndex_(counter, 0, 0)
        command.concurrentDispatchThreads_threadsPerThreadgroup_((threads, 1, 1), (1, 1, 1))
        command.setBarrier()

    def replay(self) -> Any:
        commands = self.queue.commandBuffer()
        encoder = commands.computeCommandEncoderWithDispatchType_(1)
        encoder.executeCommandsInBuffer_withRange_(self.commands, (0, self.commands.size()))
        encoder.endEncoding()
        finish(commands)
        return commands.error()

    def counted(self) -> list[int]:
        return [int(array(each, np.uint32)[0]) for each in self.counters]


def settle(recorded: Recorded) -> None:
    """Replays until every kernel has found its engine and the launches are kept."""
    state = pipeline("count", None, True)
    end = time.monotonic() + 30
    while recorded.replay() is None and not state.state.is_settled((1, 1, 1)) and time.monotonic() < end:
        time.sleep(0.05)
    assert recorded.replay() is None


def test_a_second_replay_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(COUNT, 100)
    settle(recorded)
    before = recorded.counted()
    built: list[str] = []

    def noting(kind: type[Any], name: str) -> Callable[..., Any]:
        true = getattr(kind, name)

        def call(self: Any, *arguments: Any) -> Any:
            built.append(name)
            return true(self, *arguments)

        return call

    monkeypatch.setattr(Bindings, "dispatch", noting(Bindings, "dispatch"))
    monkeypatch.setattr(LaunchBatch, "__init__", noting(LaunchBatch, "__init__"))
    assert recorded.replay() is None
    assert built == []
    more = [COUNT // 100 + (index < COUNT % 100) for index in range(100)]
    assert recorded.counted() == [a + b for a, b in zip(before, more, strict=True)]


def test_an_edited_command_is_seen() -> None:
    recorded = Recorded(3, 2)
    settle(recorded)
    before = recorded.counted()
    recorded.encode(2, recorded.counters[1], threads=5)
    assert recorded.replay() is None
    assert [a - b for a, b in zip(recorded.counted(), before, strict=True)] == [1, 6]
    recorded.commands.resetWithRange_((0, 2))
    assert recorded.replay() is None
    assert [a - b for a, b in zip(recorded.counted(), before, strict=True)] == [1, 11]


def test_memory_that_is_no_longer_resident_is_seen() -> None:
    recorded = Recorded(3, 2)
    settle(recorded)
    recorded.residency.removeAllocation_(recorded.counters[1])
    assert recorded.replay() is None  # not committed yet
    recorded.residency.commit()
    assert "is not resident" in recorded.replay().localizedDescription()
    recorded.residency.addAllocation_(recorded.counters[1])
    recorded.residency.commit()
    assert recorded.replay() is None


def test_memory_that_is_gone_is_seen() -> None:
    recorded = Recorded(3, 2)
    settle(recorded)
    recorded.residency.removeAllocation_(recorded.counters.pop())
    recorded.residency.commit()
    assert "was released" in recorded.replay().localizedDescription()


def test_two_queues_replay_the_same_commands() -> None:
    recorded = Recorded(50, 2)
    settle(recorded)
    before, other = recorded.counted(), default_device().newCommandQueue()
    other.addResidencySet_(recorded.residency)
    flying = []
    for queue in (recorded.queue, other) * 10:
        commands = queue.commandBuffer()
        encoder = commands.computeCommandEncoder()
        encoder.executeCommandsInBuffer_withRange_(recorded.commands, (0, 50))
        encoder.endEncoding()
        commands.commit()
        flying.append(commands)
    for commands in flying:
        commands.waitUntilCompleted()
        assert commands.error() is None
    assert [a - b for a, b in zip(recorded.counted(), before, strict=True)] == [500, 500]
