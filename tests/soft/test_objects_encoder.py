"""The compute encoder: grids, bindings, barriers and schedules, and each misuse that Metal would not survive."""

from __future__ import annotations

import ctypes
import struct
from array import array as packed
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal

from .objects_kit import array, buffer, default_device, encode_add, encode_note, finish, pipeline

WRITES_BYTES = """#include <metal_stdlib>
kernel void right(constant float &x, device float *out) { *out = x; }
kernel void changed(device const float *x, device float *out) { *out = *(device float *)x = 99; }
kernel void strayed(device const float *x, device float *out) {
  for (int j = 127; j >= 0; j--) ((device float *)x)[j] = 77;
}
"""
CONCURRENT = Metal.MTLDispatchTypeConcurrent


class Encoding:
    """An open encoder that ends itself and, without an error, runs."""

    def __init__(self, queue: Any, kind: int = Metal.MTLDispatchTypeSerial) -> None:
        self.command_buffer = queue.commandBuffer()
        self.encoder = self.command_buffer.computeCommandEncoderWithDispatchType_(kind)

    def __enter__(self) -> Any:
        return self.encoder

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self.encoder.is_open:
            self.encoder.endEncoding()
        if kind is None:
            finish(self.command_buffer)
            assert self.command_buffer.error() is None


@pytest.mark.parametrize("group", [(32, 1, 1), (7, 1, 1), (1, 1, 1), (1024, 1, 1)])
def test_dispatch_threads_covers_exactly_the_grid(queue: Any, group: tuple[int, int, int]) -> None:
    source, target = buffer(np.arange(200, dtype=np.float32)), buffer(np.full(200, -1, np.float32))
    with Encoding(queue) as encoder:
        encoder.setComputePipelineState_(pipeline("add"))
        encoder.setBuffers_offsets_withRange_((source, target), packed("Q", [0, 0]), (0, 2))
        encoder.setBytes_length_atIndex_(np.float32(1), 4, 2)
        encoder.dispatchThreads_threadsPerThreadgroup_((150, 1, 1), group)
    assert np.array_equal(array(target), np.r_[np.arange(150) + 1, [-1] * 50].astype(np.float32))


@pytest.mark.parametrize(
    "k", [struct.pack("<f", 2), bytearray(struct.pack("<f", 2)), ctypes.c_float(2), np.array([2], np.float32)]
)
def test_inline_bytes_are_copied_at_the_call(queue: Any, k: Any) -> None:
    source, target = buffer(np.zeros(4, np.float32)), buffer(np.zeros(4, np.float32))
    with Encoding(queue) as encoder:
        encode_add(encoder, source, target, 0, 4)
        encoder.setBytes_length_atIndex_(k, 4, 2)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_((2, 1, 1), (2, 1, 1))
        if isinstance(k, bytearray):
            k[:] = bytes(4)
    assert list(array(target)) == [2, 2, 2, 2]


@pytest.mark.parametrize("kernel", ["changed", "strayed"])
def test_no_kernel_changes_the_bytes_of_other_command_buffers(queue: Any, kernel: str) -> None:
    """Neither by a cast nor by an index: equal bytes may be in one place for all."""
    library, _ = queue.device().newLibraryWithSource_options_error_(WRITES_BYTES, None, None)

    def launched(name: str) -> tuple[float, Any]:
        state, _ = queue.device().newComputePipelineStateWithFunction_error_(library.newFunctionWithName_(name), None)
        buffer = queue.device().newBufferWithLength_options_(16, 0)
        commands = queue.commandBuffer()
        encoder = commands.computeCommandEncoder()
        encoder.setComputePipelineState_(state)
        encoder.setBytes_length_atIndex_(struct.pack("f", 2.5), 4, 0)
        encoder.setBuffer_offset_atIndex_(buffer, 0, 1)
        encoder.dispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
        encoder.endEncoding()
        commands.commit()
        commands.waitUntilCompleted()
        return struct.unpack("f", buffer.contents().as_buffer(4))[0], commands.error()

    assert launched("right") == (2.5, None)
    launched(kernel)
    assert launched("right") == (2.5, None)


def test_many_inline_bytes(queue: Any) -> None:
    log = buffer(np.zeros(3001, np.uint32))
    with Encoding(queue) as encoder:
        for name in range(3000):
            encode_note(encoder, log, name)
    assert list(array(log, np.uint32)) == [3000, *range(3000)]


def test_offsets(queue: Any) -> None:
    source, target = buffer(np.arange(8, dtype=np.float32)), buffer(np.zeros(8, np.float32))
    with Encoding(queue) as encoder:
        encode_add(encoder, source, target, 0, 1)
        encoder.setBufferOffset_atIndex_(16, 0)
        encoder.setBufferOffset_atIndex_(28, 1)
        encoder.dispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
    assert list(array(target)) == [0, 0, 0, 0, 0, 0, 0, 4]


def test_threadgroup_memory(queue: Any) -> None:
    source, target = buffer(np.arange(64, dtype=np.uint32)), buffer(np.zeros(1, np.uint32))
    with Encoding(queue) as encoder:
        encoder.setComputePipelineState_(pipeline("shared_sum"))
        encoder.setBuffer_offset_atIndex_(source, 0, 0)
        encoder.setBuffer_offset_atIndex_(target, 0, 1)
        encoder.setThreadgroupMemoryLength_atIndex_(256, 0)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_((1, 1, 1), (64, 1, 1))
    assert array(target, np.uint32)[0] == sum(range(64)) + 3


def test_indirect_counts_are_read_when_the_dispatch_runs(queue: Any) -> None:
    counts, total = buffer(np.zeros(4, np.float32)), buffer(np.zeros(1, np.uint32))
    asked = buffer(np.array([0, 3, 2, 1], np.uint32).view(np.float32))
    with Encoding(queue) as encoder:
        encode_add(encoder, asked, counts, 0, 4)
        encoder.setComputePipelineState_(pipeline("count"))
        encoder.setBuffer_offset_atIndex_(total, 0, 0)
        encoder.dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup_(counts, 4, (5, 1, 1))
        encoder.dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup_(counts, 0, (5, 1, 1))
    assert array(total, np.uint32)[0] == 30


def test_pointers_inside_buffers(queue: Any) -> None:
    target = buffer(np.zeros(4, np.float32))
    table = buffer(np.array([target.gpuAddress()], np.uint64))
    with Encoding(queue) as encoder:
        encoder.setComputePipelineState_(pipeline("pointers"))
        encoder.setBuffer_offset_atIndex_(table, 0, 0)
        encoder.useResource_usage_(target, Metal.MTLResourceUsageWrite)
        encoder.dispatchThreads_threadsPerThreadgroup_((4, 1, 1), (4, 1, 1))
    assert list(array(target)) == [7, 7, 7, 7]


def order(schedule: str, kind: int, barriers: bool = False) -> list[int]:
    device = Metal.open_device(Metal.SoftOptions(schedule=schedule))
    log = buffer(np.zeros(32, np.uint32), device)
    with Encoding(device.newCommandQueue(), kind) as encoder:
        for name in range(12):
            if barriers and name % 4 == 0:
                encoder.memoryBarrierWithScope_(Metal.MTLBarrierScopeBuffers)
            encode_note(encoder, log, name, device)
    return [int(x) for x in array(log, np.uint32)[1:13]]


def test_a_schedule_permutes_between_barriers_only() -> None:
    plain = list(range(12))
    assert order("ordered", CONCURRENT) == plain
    assert order("reversed", CONCURRENT) == plain[::-1]
    assert order("reversed", Metal.MTLDispatchTypeSerial) == plain
    assert order("reversed", CONCURRENT, barriers=True) == [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8]
    shuffled = order("shuffled:3", CONCURRENT)
    assert shuffled != plain
    assert sorted(shuffled) == plain
    assert order("shuffled:3", CONCURRENT) == shuffled
    assert order("shuffled:4", CONCURRENT) != shuffled
    parts = order("shuffled:5", CONCURRENT, barriers=True)
    assert [sorted(parts[i : i + 4]) for i in (0, 4, 8)] == [plain[:4], plain[4:8], plain[8:]]


def test_barriers_with_resources_open_an_epoch(queue: Any) -> None:
    log = buffer(np.zeros(8, np.uint32))
    with Encoding(queue, CONCURRENT) as encoder:
        encode_note(encoder, log, 1)
        encoder.memoryBarrierWithScope_(Metal.MTLBarrierScopeTextures)
        assert len(encoder._pass.epochs) == 1  # textures only
        encoder.memoryBarrierWithResources_count_([log], 1)
        encode_note(encoder, log, 2)
        assert len(encoder._pass.epochs) == 2
        assert encoder._pass.only == {1: (log.allocation,)}


def prepared(encoder: Any, name: str = "add") -> Any:
    encoder.setComputePipelineState_(pipeline(name))
    encoder.setBuffer_offset_atIndex_(buffer(np.zeros(64, np.float32)), 0, 0)
    encoder.setBuffer_offset_atIndex_(buffer(np.zeros(64, np.float32)), 0, 1)
    encoder.setBytes_length_atIndex_(bytes(4), 4, 2)
    return encoder


ONE = (1, 1, 1)
BIG = 4096
MISUSES: dict[str, tuple[str, Any]] = {
    "no pipeline": ("without a pipeline", lambda e: e.dispatchThreads_threadsPerThreadgroup_(ONE, ONE)),
    "missing buffer": (
        r"kernel add: nothing is bound to buffer 'b' \(index 1\)",
        lambda e: (
            prepared(e),
            e.setBuffer_offset_atIndex_(None, 0, 1),
            e.dispatchThreads_threadsPerThreadgroup_(ONE, ONE),
        ),
    ),
    "threadgroup too large": (
        r"kernel narrow: .* 65 threads; this pipeline allows 1 to 64",
        lambda e: (prepared(e, "narrow"), e.dispatchThreads_threadsPerThreadgroup_((99, 1, 1), (65, 1, 1))),
    ),
    "threadgroup too deep": (
        "this pipeline allows 1 to 1024",
        lambda e: (prepared(e), e.dispatchThreads_threadsPerThreadgroup_(ONE, (1, 1025, 1))),
    ),
    "empty grid": ("a grid of", lambda e: (prepared(e), e.dispatchThreads_threadsPerThreadgroup_((0, 1, 1), ONE))),
    "empty grid of groups": (
        "a grid of",
        lambda e: (prepared(e), e.dispatchThreadgroups_threadsPerThreadgroup_((1, 0, 1), ONE)),
    ),
    "empty group": ("0 threads", lambda e: (prepared(e), e.dispatchThreads_threadsPerThreadgroup_(ONE, (1, 1, 0)))),
    "grid too large": (
        "a grid of",
        lambda e: (prepared(e), e.dispatchThreads_threadsPerThreadgroup_((1 << 32, 1, 1), ONE)),
    ),
    "grid that wraps": (
        r"fewer than 2\*\*64 threads",
        lambda e: (prepared(e), e.dispatchThreads_threadsPerThreadgroup_((1 << 22, 1 << 21, 1 << 21), ONE)),
    ),
    "long inline bytes": ("4097 bytes, expected 1 to 4096", lambda e: e.setBytes_length_atIndex_(bytes(4097), 4097, 0)),
    "empty inline bytes": ("0 bytes", lambda e: e.setBytes_length_atIndex_(b"", 0, 0)),
    "short inline bytes": ("fewer than the 8", lambda e: e.setBytes_length_atIndex_(bytes(4), 8, 0)),
    "inline bytes for a writable argument": (
        r"kernel add may write buffer 'b' \(index 1\), which setBytes",
        lambda e: (
            prepared(e),
            e.setBytes_length_atIndex_(bytes(64), 64, 1),
            e.dispatchThreads_threadsPerThreadgroup_(ONE, ONE),
        ),
    ),
    "too few bytes for a reference": (
        "kernel add reads 4 bytes of buffer 'k'",
        lambda e: (
            prepared(e),
            e.setBytes_length_atIndex_(bytes(2), 2, 2),
            e.dispatchThreads_threadsPerThreadgroup_(ONE, ONE),
        ),
    ),
    "buffer index": ("buffer index 31", lambda e: e.setBuffer_offset_atIndex_(None, 0, 31)),
    "range of buffers": ("buffer index 31", lambda e: e.setBuffers_offsets_withRange_([None] * 2, [0, 0], (30, 2))),
    "fewer buffers than the range": (
        "its count says 2",
        lambda e: e.setBuffers_offsets_withRange_([None], [0, 0], (0, 2)),
    ),
    "offset beyond the end": (
        "offset 256 at index 0: .* has 256 bytes",
        lambda e: e.setBuffer_offset_atIndex_(buffer(np.zeros(64, np.float32)), 256, 0),
    ),
    "moved beyond the end": ("offset 256", lambda e: (prepared(e), e.setBufferOffset_atIndex_(256, 0))),
    "moved without a buffer": ("no buffer is bound", lambda e: e.setBufferOffset_atIndex_(0, 5)),
    "unaligned offset": (
        "kernel add: offset 2 of buffer 'a' .* multiple of 4",
        lambda e: (prepared(e), e.setBufferOffset_atIndex_(2, 0), e.dispatchThreads_threadsPerThreadgroup_(ONE, ONE)),
    ),
    "unaligned vector": (
        "multiple of 16",
        lambda e: (
            prepared(e, "vectors"),
            e.setBufferOffset_atIndex_(8, 0),
            e.dispatchThreads_threadsPerThreadgroup_(ONE, ONE),
        ),
    ),
    "threadgroup memory unset": (
        "threadgroup argument 'part'",
        lambda e: (prepared(e, "shared_sum"), e.dispatchThreads_threadsPerThreadgroup_(ONE, ONE)),
    ),
    "threadgroup memory step": ("multiple of 16", lambda e: e.setThreadgroupMemoryLength_atIndex_(20, 0)),
    "threadgroup memory alone": ("the device has 32768", lambda e: e.setThreadgroupMemoryLength_atIndex_(32784, 0)),
    "threadgroup memory together": (
        r"32784 bytes of threadgroup memory \(16 of them",
        lambda e: (
            prepared(e, "shared_sum"),
            e.setThreadgroupMemoryLength_atIndex_(32768, 0),
            e.dispatchThreads_threadsPerThreadgroup_(ONE, ONE),
        ),
    ),
    "barrier scope": ("barrier scope 4", lambda e: e.memoryBarrierWithScope_(Metal.MTLBarrierScopeRenderTargets)),
    "no usage": ("usage 0", lambda e: e.useResource_usage_(buffer(np.zeros(4)), 0)),
    "sampling between dispatches": (
        "does not sample at dispatch boundaries",
        lambda e: e.sampleCountersInBuffer_atSampleIndex_withBarrier_(sample_buffer(), 0, False),
    ),
    "indirect offset": (
        "multiple of 4 with 12 bytes",
        lambda e: e.dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup_(
            buffer(np.zeros(3, np.uint32)), 4, ONE
        ),
    ),
    "unbalanced pop": ("no debug group", lambda e: e.popDebugGroup()),
}


def sample_buffer() -> Any:
    device = default_device()
    descriptor = Metal.MTLCounterSampleBufferDescriptor.alloc().init()
    descriptor.setCounterSet_(device.counterSets()[0])
    descriptor.setSampleCount_(4)
    return device.newCounterSampleBufferWithDescriptor_error_(descriptor, None)[0]


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_refused(queue: Any, name: str) -> None:
    message, call = MISUSES[name]
    with pytest.raises(Metal.MetalMisuse, match=message), Encoding(queue) as encoder:
        call(encoder)


ENDED: dict[str, Callable[[], tuple[Any, ...]]] = {
    "setComputePipelineState_": lambda: (pipeline("add"),),
    "setBuffer_offset_atIndex_": lambda: (None, 0, 0),
    "setBytes_length_atIndex_": lambda: (b"abcd", 4, 0),
    "dispatchThreads_threadsPerThreadgroup_": lambda: (ONE, ONE),
    "dispatchThreadgroups_threadsPerThreadgroup_": lambda: (ONE, ONE),
    "memoryBarrierWithScope_": lambda: (1,),
    "endEncoding": tuple,
    "pushDebugGroup_": lambda: ("x",),
}


@pytest.mark.parametrize("call", ENDED)
def test_nothing_is_encoded_after_the_end(queue: Any, call: str) -> None:
    encoder = queue.commandBuffer().computeCommandEncoder()
    encoder.endEncoding()
    with pytest.raises(Metal.MetalMisuse, match="after endEncoding"):
        getattr(encoder, call)(*ENDED[call]())


@pytest.mark.parametrize(
    ("call", "arguments", "kind"),
    [
        ("setBuffer_offset_atIndex_", (None, 0, 1.0), TypeError),
        ("setBuffer_offset_atIndex_", (None, 0, True), TypeError),
        ("setBuffer_offset_atIndex_", ("buffer", 0, 0), TypeError),
        ("setBuffer_offset_atIndex_", (None, 0, -1), ValueError),
        ("setComputePipelineState_", (None,), TypeError),
        ("setBytes_length_atIndex_", ("text", 4, 0), TypeError),
        ("setBytes_length_atIndex_", (12345, 4, 0), TypeError),
        ("setBytes_length_atIndex_", (bytes(4), 4.0, 0), TypeError),
        ("dispatchThreads_threadsPerThreadgroup_", ((1, 1), ONE), ValueError),
        ("dispatchThreads_threadsPerThreadgroup_", ((1.5, 1, 1), ONE), TypeError),
        ("dispatchThreads_threadsPerThreadgroup_", ((-1, 1, 1), ONE), ValueError),
        ("dispatchThreads_threadsPerThreadgroup_", (5, ONE), TypeError),
        ("dispatchThreads_threadsPerThreadgroup_", ("abc", ONE), TypeError),
        ("setBuffers_offsets_withRange_", ([None], [0], (0,)), ValueError),
        ("setThreadgroupMemoryLength_atIndex_", (-16, 0), ValueError),
        ("useResources_count_usage_", ([None], 1, 1), TypeError),
        ("insertDebugSignpost_", (5,), TypeError),
    ],
)
def test_arguments_of_the_wrong_kind(queue: Any, call: str, arguments: tuple[Any, ...], kind: type[Exception]) -> None:
    with pytest.raises(kind), Encoding(queue) as encoder:
        getattr(encoder, call)(*arguments)


def test_sizes_may_be_structs_and_numpy_integers(queue: Any) -> None:
    source, target = buffer(np.zeros(4, np.float32)), buffer(np.zeros(4, np.float32))
    with Encoding(queue) as encoder:
        encode_add(encoder, source, target, 3, 1)
        encoder.setBuffer_offset_atIndex_(target, np.int64(0), np.uint8(1))
        encoder.dispatchThreads_threadsPerThreadgroup_(Metal.MTLSize(4, 1, 1), [np.int32(4), 1, 1])
    assert list(array(target)) == [3, 3, 3, 3]


def test_an_open_debug_group_blocks_the_end(queue: Any) -> None:
    encoder = queue.commandBuffer().computeCommandEncoder()
    encoder.pushDebugGroup_("outer")
    with pytest.raises(Metal.MetalMisuse, match="'outer' was never popped"):
        encoder.endEncoding()
    encoder.popDebugGroup()
    encoder.endEncoding()
