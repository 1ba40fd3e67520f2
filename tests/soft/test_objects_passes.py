"""Counters, blits, indirect command buffers, residency sets and captures."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal

from .objects_kit import array, buffer, encode_add, encode_note, finish, pipeline

BOTH = Metal.MTLResourceUsageRead | Metal.MTLResourceUsageWrite


def samples(device: Any, count: int) -> Any:
    descriptor = Metal.MTLCounterSampleBufferDescriptor.alloc().init()
    descriptor.setCounterSet_(next(s for s in device.counterSets() if s.name() == Metal.MTLCommonCounterSetTimestamp))
    descriptor.setSampleCount_(count)
    descriptor.setStorageMode_(Metal.MTLStorageModeShared)
    return device.newCounterSampleBufferWithDescriptor_error_(descriptor, None)


def test_one_pass_per_dispatch_gives_timestamps(device: Any, queue: Any) -> None:
    taken, error = samples(device, 6)
    assert error is None
    log, command_buffer = buffer(np.zeros(8, np.uint32)), queue.commandBuffer()
    for number in range(2):
        descriptor = Metal.MTLComputePassDescriptor.computePassDescriptor()
        attachment = descriptor.sampleBufferAttachments().objectAtIndexedSubscript_(0)
        attachment.setSampleBuffer_(taken)
        attachment.setStartOfEncoderSampleIndex_(2 * number)
        attachment.setEndOfEncoderSampleIndex_(2 * number + 1)
        encoder = command_buffer.computeCommandEncoderWithDescriptor_(descriptor)
        encode_note(encoder, log, number)
        encoder.endEncoding()
    attachment.setStartOfEncoderSampleIndex_(4)
    attachment.setEndOfEncoderSampleIndex_(5)
    command_buffer.computeCommandEncoderWithDescriptor_(descriptor).endEncoding()
    before = time.monotonic_ns()
    finish(command_buffer)
    raw = taken.resolveCounterRange_((0, 6))
    a, b, c, d, e, f = struct.unpack("<6Q", bytes(raw))
    assert before <= a < b <= c < d <= time.monotonic_ns()
    assert (e, f) == (0, 0)  # an empty pass samples nothing
    assert command_buffer.GPUStartTime() == pytest.approx(a / 1e9)


def test_counter_limits(device: Any) -> None:
    assert samples(device, 4097)[1].localizedDescription().startswith("Invalid sample buffer length: 32776 B")
    assert samples(device, 0)[0] is None
    own = Metal.open_device()
    held = [samples(own, 4096)[0] for _ in range(32)]
    assert "Cannot allocate" in samples(own, 1)[1].localizedDescription()
    held.pop()
    assert samples(own, 1)[0] is not None
    with pytest.raises(ValueError, match="ends beyond"):
        held[0].resolveCounterRange_((4000, 97))
    assert Metal.open_device(profile=Metal.DeviceProfile(counter_sets=False)).counterSets() is None
    cpu, gpu = device.sampleTimestamps_gpuTimestamp_(None, None)
    assert 0 <= time.monotonic_ns() - cpu < 1e9
    assert cpu == gpu


def test_a_profile_may_sample_between_dispatches() -> None:
    points = frozenset({Metal.MTLCounterSamplingPointAtDispatchBoundary, Metal.MTLCounterSamplingPointAtBlitBoundary})
    device = Metal.open_device(profile=Metal.DeviceProfile(counter_sampling=points))
    taken, _ = samples(device, 4)
    command_buffer = device.newCommandQueue().commandBuffer()
    log = buffer(np.zeros(8, np.uint32), device)
    encoder = command_buffer.computeCommandEncoderWithDispatchType_(1)
    for index in range(3):
        encode_note(encoder, log, index, device)
        encoder.sampleCountersInBuffer_atSampleIndex_withBarrier_(taken, index, True)
    encoder.endEncoding()
    blit = command_buffer.blitCommandEncoder()
    blit.sampleCountersInBuffer_atSampleIndex_withBarrier_(taken, 3, False)
    target = buffer(np.zeros(4, np.uint64), device)
    blit.resolveCounters_inRange_destinationBuffer_destinationOffset_(taken, (0, 4), target, 0)
    blit.endEncoding()
    finish(command_buffer)
    result = list(array(target, np.uint64))
    assert result == sorted(result)
    assert min(result) > 0
    descriptor = Metal.MTLComputePassDescriptor.computePassDescriptor()
    descriptor.sampleBufferAttachments().objectAtIndexedSubscript_(0).setSampleBuffer_(taken)
    with pytest.raises(Metal.MetalMisuse, match="stage boundaries"):
        device.newCommandQueue().commandBuffer().computeCommandEncoderWithDescriptor_(descriptor)


def test_blits_copy_and_fill_in_order(queue: Any) -> None:
    source, target = buffer(np.arange(64, dtype=np.uint8)), buffer(np.zeros(64, np.uint8))
    command_buffer = queue.commandBuffer()
    blit = command_buffer.blitCommandEncoder()
    blit.fillBuffer_range_value_(target, (0, 64), -1)
    blit.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(source, 8, target, 4, 12)
    blit.fillBuffer_range_value_(target, (60, 4), 5)
    fence = queue.device().newFence()
    blit.updateFence_(fence)
    blit.waitForFence_(fence)
    blit.endEncoding()
    finish(command_buffer)
    expected = np.full(64, 255, np.uint8)
    expected[4:16] = np.arange(8, 20)
    expected[60:] = 5
    assert np.array_equal(array(target, np.uint8), expected)


BAD_BLITS: dict[str, tuple[str, Any]] = {
    "value": ("pass -1 for 255", lambda e, b: e.fillBuffer_range_value_(b, (0, 4), 255)),
    "range": ("ends beyond 64", lambda e, b: e.fillBuffer_range_value_(b, (4, 64), 0)),
    "words": ("multiples of 4", lambda e, b: e.fillBuffer_range_value_(b, (2, 4), 0)),
    "overlap": ("overlap", lambda e, b: e.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(b, 0, b, 4, 8)),
    "size": (
        "ends beyond",
        lambda e, b: e.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(b, 0, b, 32, 64),
    ),
    "sampling": (
        "blit boundaries",
        lambda e, b: e.sampleCountersInBuffer_atSampleIndex_withBarrier_(samples(e.device(), 1)[0], 0, False),
    ),
}


@pytest.mark.parametrize("name", BAD_BLITS)
def test_bad_blits_are_refused(queue: Any, name: str) -> None:
    message, call = BAD_BLITS[name]
    blit = queue.commandBuffer().blitCommandEncoder()
    with pytest.raises(Metal.MetalMisuse, match=message):
        call(blit, buffer(np.zeros(64, np.uint8)))
    blit.endEncoding()


def icb_descriptor(**changes: Any) -> Any:
    descriptor = Metal.MTLIndirectCommandBufferDescriptor.new()
    both = Metal.MTLIndirectCommandTypeConcurrentDispatch | Metal.MTLIndirectCommandTypeConcurrentDispatchThreads
    descriptor.setCommandTypes_(changes.get("types", both))
    descriptor.setInheritBuffers_(changes.get("buffers", False))
    descriptor.setInheritPipelineState_(changes.get("pipeline", False))
    descriptor.setMaxKernelBufferBindCount_(4)
    return descriptor


def icb(device: Any, count: int, **changes: Any) -> Any:
    commands = device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(
        icb_descriptor(**changes), count, 0
    )
    assert commands.size() == count
    return commands


def noted(commands: Any, log: Any, names: Any, barriers: bool = True, device: Any = None) -> None:
    for index in range(commands.size()):
        command = commands.indirectComputeCommandAtIndex_(index)
        command.setComputePipelineState_(pipeline("note", device, True))
        command.setKernelBuffer_offset_atIndex_(log, 0, 0)
        command.setKernelBuffer_offset_atIndex_(names, 4 * index, 1)
        command.concurrentDispatchThreadgroups_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
        if barriers:
            command.setBarrier()


def test_indirect_commands_replay(device: Any, queue: Any) -> None:
    log, names, commands = buffer(np.zeros(32, np.uint32)), buffer(np.arange(10, 18, dtype=np.uint32)), icb(device, 4)
    noted(commands, log, names)
    span = buffer(np.array([2, 2], np.uint32))
    for _ in range(2):
        command_buffer = queue.commandBuffer()
        blit = command_buffer.blitCommandEncoder()
        blit.optimizeIndirectCommandBuffer_withRange_(commands, (0, 4))
        blit.endEncoding()
        encoder = command_buffer.computeCommandEncoder()
        encoder.useResources_count_usage_([log, names], 2, BOTH)
        encoder.executeCommandsInBuffer_withRange_(commands, (1, 3))
        encoder.executeCommandsInBuffer_indirectBuffer_indirectBufferOffset_(commands, span, 0)
        encoder.endEncoding()
        finish(command_buffer)
        assert command_buffer.error() is None
    assert list(array(log, np.uint32)[:11]) == [10, 11, 12, 13, 12, 13] + [11, 12, 13, 12, 13]
    commands.resetWithRange_((0, 4))
    command_buffer = queue.commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    encoder.executeCommandsInBuffer_withRange_(commands, (0, 4))
    encoder.endEncoding()
    finish(command_buffer)
    assert array(log, np.uint32)[0] == 10


def test_indirect_commands_without_barriers_run_in_any_order() -> None:
    device = Metal.open_device(Metal.SoftOptions(schedule="reversed"))
    log, names = buffer(np.zeros(32, np.uint32), device), buffer(np.arange(8, dtype=np.uint32), device)
    commands = icb(device, 4)
    noted(commands, log, names, barriers=False, device=device)
    commands.indirectComputeCommandAtIndex_(2).setBarrier()
    command_buffer = device.newCommandQueue().commandBuffer()
    encoder = command_buffer.computeCommandEncoderWithDispatchType_(1)
    encoder.useResources_count_usage_([log, names], 2, BOTH)
    encoder.executeCommandsInBuffer_withRange_(commands, (0, 4))
    encoder.endEncoding()
    finish(command_buffer)
    assert command_buffer.error() is None
    assert list(array(log, np.uint32)[1:5]) == [1, 0, 3, 2]


def test_indirect_commands_inherit_and_are_copied(device: Any, queue: Any) -> None:
    source, target = buffer(np.arange(8, dtype=np.float32)), buffer(np.zeros(8, np.float32))
    commands, copy = icb(device, 1, buffers=True, pipeline=True), icb(device, 2, buffers=True, pipeline=True)
    commands.indirectComputeCommandAtIndex_(0).concurrentDispatchThreads_threadsPerThreadgroup_((8, 1, 1), (8, 1, 1))
    with pytest.raises(Metal.MetalMisuse, match="inherits its pipeline"):
        commands.indirectComputeCommandAtIndex_(0).setComputePipelineState_(pipeline("add", None, True))
    command_buffer = queue.commandBuffer()
    blit = command_buffer.blitCommandEncoder()
    blit.copyIndirectCommandBuffer_sourceRange_destination_destinationIndex_(commands, (0, 1), copy, 1)
    blit.resetCommandsInBuffer_withRange_(commands, (0, 1))
    blit.endEncoding()
    encoder = command_buffer.computeCommandEncoder()
    encode_add(encoder, source, target, 1.0, 1)
    encoder.executeCommandsInBuffer_withRange_(copy, (0, 2))
    encoder.endEncoding()
    finish(command_buffer)
    assert command_buffer.error() is None
    assert list(array(target)) == [1, 2, 3, 4, 5, 6, 7, 8]


def replayed(queue: Any, commands: Any, *resident: Any) -> Any:
    command_buffer = queue.commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    for resource in resident:
        encoder.useResource_usage_(resource, BOTH)
    encoder.executeCommandsInBuffer_withRange_(commands, (0, commands.size()))
    encoder.endEncoding()
    finish(command_buffer)
    return command_buffer.error()


def test_indirect_commands_need_resident_living_buffers(device: Any, queue: Any) -> None:
    log, names, commands = buffer(np.zeros(8, np.uint32)), buffer(np.zeros(8, np.uint32)), icb(device, 1)
    names.setLabel_("names")
    noted(commands, log, names)
    error = replayed(queue, commands, log)
    assert error.code() == Metal.MTLCommandBufferErrorInvalidResource
    assert "'names' at index 1 is not resident" in error.localizedDescription()
    descriptor = Metal.MTLResidencySetDescriptor.alloc().init()
    residency, error = device.newResidencySetWithDescriptor_error_(descriptor, None)
    residency.addAllocation_(names)
    queue.addResidencySet_(residency)
    assert replayed(queue, commands, log) is not None  # not committed yet
    residency.commit()
    assert replayed(queue, commands, log) is None
    residency.removeAllAllocations()
    residency.commit()
    del names
    assert "was released" in replayed(queue, commands, log).localizedDescription()


def test_indirect_misuse(device: Any) -> None:
    command = icb(device, 1, types=Metal.MTLIndirectCommandTypeConcurrentDispatch).indirectComputeCommandAtIndex_(0)
    with pytest.raises(Metal.MetalMisuse, match="supportIndirectCommandBuffers"):
        command.setComputePipelineState_(pipeline("add"))
    with pytest.raises(Metal.MetalMisuse, match="maxKernelBufferBindCount is 4"):
        command.setKernelBuffer_offset_atIndex_(buffer(np.zeros(4)), 0, 4)
    with pytest.raises(Metal.MetalMisuse, match="do not include 64"):
        command.concurrentDispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
    with pytest.raises(Metal.MetalMisuse, match="there are 1"):
        icb(device, 1).indirectComputeCommandAtIndex_(1)
    with pytest.raises(Metal.MetalMisuse, match="compute commands only"):
        icb(device, 1, types=Metal.MTLIndirectCommandTypeDraw)
    without = Metal.open_device(profile=Metal.DeviceProfile(indirect_command_buffers=False))
    make = without.newIndirectCommandBufferWithDescriptor_maxCommandCount_options_
    assert make(icb_descriptor(), 1, 0) is None


def test_residency_sets_hold_and_count(device: Any, queue: Any) -> None:
    descriptor = Metal.MTLResidencySetDescriptor.alloc().init()
    descriptor.setLabel_("weights")
    descriptor.setInitialCapacity_(8)
    residency, error = device.newResidencySetWithDescriptor_error_(descriptor, None)
    assert (error, residency.label()) == (None, "weights")
    members = [buffer(np.zeros(4)) for _ in range(3)]
    residency.addAllocations_count_(members, 2)
    assert (residency.allocationCount(), residency.allocatedSize()) == (2, 0)
    residency.commit()
    residency.requestResidency()
    assert residency.allocatedSize() == 2 * members[0].allocatedSize()
    assert residency.containsAllocation_(members[1])
    assert not residency.containsAllocation_(members[2])
    residency.removeAllocation_(members[0])
    assert residency.allocationCount() == 1
    queue.addResidencySet_(residency)
    queue.removeResidencySet_(residency)
    command_buffer = queue.commandBuffer()
    command_buffer.useResidencySet_(residency)
    finish(command_buffer)
    with pytest.raises(Metal.MetalMisuse):
        command_buffer.useResidencySet_(residency)
    residency.endResidency()


def capture_descriptor(target: Any, path: Path) -> Any:
    descriptor = Metal.MTLCaptureDescriptor.alloc().init()
    descriptor.setCaptureObject_(target)
    descriptor.setDestination_(Metal.MTLCaptureDestinationGPUTraceDocument)
    descriptor.setOutputURL_(Metal.NSURL.fileURLWithPath_(str(path)))
    return descriptor


def test_a_capture_is_refused_unless_enabled(device: Any, tmp_path: Path) -> None:
    manager = Metal.MTLCaptureManager.sharedCaptureManager()
    descriptor = capture_descriptor(device, tmp_path / "x.gputrace")
    done, error = manager.startCaptureWithDescriptor_error_(descriptor, None)
    assert (done, error.localizedDescription()) == (False, "Capturing is not supported.")
    assert not manager.isCapturing()


def test_a_capture_is_a_readable_folder(tmp_path: Path) -> None:
    device = Metal.open_device(Metal.SoftOptions(capture_enabled=True, capture_buffers=True))
    manager, folder = Metal.MTLCaptureManager.sharedCaptureManager(), tmp_path / "x.gputrace"
    scope = manager.newCaptureScopeWithDevice_(device)
    assert manager.startCaptureWithDescriptor_error_(capture_descriptor(scope, folder), None) == (True, None)
    try:
        assert manager.startCaptureWithDescriptor_error_(capture_descriptor(scope, tmp_path / "y"), None)[0] is False
        queue = device.newCommandQueue()
        source, target = buffer(np.ones(4, np.float32), device), buffer(np.zeros(4, np.float32), device)
        target.setLabel_("sums")
        finish(queue.commandBuffer())  # outside of the scope
        scope.beginScope()
        command_buffer = queue.commandBuffer()
        command_buffer.setLabel_("token")
        encoder = command_buffer.computeCommandEncoder()
        encode_add(encoder, source, target, 1.5, 4, device)
        encoder.endEncoding()
        finish(command_buffer)
        scope.endScope()
    finally:
        manager.stopCapture()
    lines = [json.loads(line) for line in (folder / "capture.jsonl").read_text().splitlines()]
    assert [(line["event"], line["label"]) for line in lines] == [("committed", "token"), ("completed", "token")]
    dispatch = lines[0]["commands"][0]["epochs"][0][0]
    assert (dispatch["kernel"], dispatch["threads"]) == ("add", [4, 1, 1])
    assert "kernel void add" in (folder / "sources" / dispatch["source"]).read_text()
    bound = {binding["name"]: binding for binding in dispatch["bindings"]}
    assert bound["b"]["buffer"] == "sums"
    assert bytes.fromhex(bound["k"]["inline"]) == struct.pack("<f", 1.5)
    dumped = {entry["label"]: entry["file"] for entry in lines[1]["buffers"]}
    assert list(np.fromfile(folder / "buffers" / dumped["sums"], np.float32)) == [2.5] * 4
    again = manager.startCaptureWithDescriptor_error_(capture_descriptor(device, folder), None)
    assert "already exists" in again[1].localizedDescription()
