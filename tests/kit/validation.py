"""Plays Metal's validation layer: writes down each message that Metal answers with an abort or with silence."""

from __future__ import annotations

import ctypes
import mmap
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from encoder.message_table import faults

from kit.spy import Message, Seen, Watcher, watched
from mlx_native_py import MlxDevice
from mlx_native_py.metal import Backend

SLOTS, INLINE, STEP, QUEUE, COMPLETED = 31, 4096, 16, 64, 4


@dataclass(frozen=True)
class Violation:
    """One message that must never have been sent."""

    rule: str
    detail: str


@dataclass(eq=False)
class Commands:
    """A command buffer."""

    target: weakref.ref[Any]
    retained: bool
    committed: bool = False
    observed: bool = False  # whether anybody has been told that it is done
    encoder: weakref.ref[Any] | None = None
    lost: list[str] = field(default_factory=list)  # what went before the commit

    @property
    def running(self) -> bool:
        mtl = self.target()
        return self.committed and mtl is not None and mtl.status() < COMPLETED


@dataclass(eq=False)
class Encoder:
    """A compute encoder."""

    commands: Commands
    thread: int
    ended: bool = False
    pipeline: Pipeline | None = None
    buffers: dict[int, tuple[int, int]] = field(default_factory=dict)  # length, offset
    inline: dict[int, int] = field(default_factory=dict)
    shared: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Pipeline:
    """What a pipeline needs, by its reflection."""

    name: str
    max_threads: int
    static: int
    buffers: tuple[tuple[int, bool, int, int, bool], ...]  # slot, used, size, alignment, written
    shared: tuple[int, ...]


Rule = Callable[["ValidationLayer", Message], None]


class ValidationLayer(Watcher):
    """`violations` stays empty as long as the core keeps every rule; `device` is the MTLDevice, unwatched."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.violations: list[Violation] = []
        self.messages = 0
        self._alive: weakref.WeakSet[Any] = weakref.WeakSet()  # command buffers, as proxies

    def trip(self, rule: str, detail: Any) -> None:
        self.violations.append(Violation(rule, str(detail)))

    def before(self, message: Message) -> None:
        self.messages += 1
        for fault in faults(message):
            self.trip("message", fault)
        state = message.receiver.state
        if isinstance(state, Encoder):
            if state.ended:
                self.trip("use after endEncoding", message.name)
            if state.thread != threading.get_ident() and message.name != "endEncoding":
                self.trip("encoder in two threads", message.name)
        rule = RULES.get(message.name)
        if rule is not None:
            rule(self, message)

    def after(self, message: Message, answer: Any) -> None:
        name = message.name
        if name.startswith("commandBuffer") and isinstance(answer, Seen):
            answer.state = Commands(weakref.ref(answer._target), retained=name == "commandBuffer")
            self._alive.add(answer)
        elif name.startswith("computeCommandEncoder") and isinstance(answer, Seen):
            commands = message.receiver.state
            answer.state = Encoder(commands, threading.get_ident())
            commands.encoder = weakref.ref(answer)
            weakref.finalize(answer, self._encoder_gone, answer.state).atexit = False
        elif (name == "status" and answer >= COMPLETED) or name == "waitUntilCompleted":
            message.receiver.state.observed = True
        elif name.startswith("newComputePipelineState") and answer[0] is not None:
            answer[0].state = _reflected(answer[0]._target, answer[1]._target)

    def _encoder_gone(self, state: Encoder) -> None:
        if not state.ended:
            self.trip("encoder released without endEncoding", state.commands)

    def _gone(self, state: Commands, what: str) -> None:
        """Nobody may count on the GPU having been quick, so only what was observed counts."""
        if not state.committed:
            state.lost.append(what)
        elif not state.observed:
            self.trip("freed under an unretained command buffer", what)

    def keep(self, state: Encoder, used: Any) -> None:
        """With unretained references, `used` has to outlive the work."""
        if not state.commands.retained and isinstance(used, Seen):
            weakref.finalize(used, self._gone, state.commands, used.kind).atexit = False

    # Command buffers

    def between_encoders(self, message: Message) -> None:
        commands = message.receiver.state
        if not isinstance(commands, Commands):
            return
        if commands.committed:
            self.trip("committed twice" if message.name == "commit" else "after commit", message.name)
        opened = None if commands.encoder is None else commands.encoder()
        if opened is not None and not opened.state.ended:
            rules = {"commit": "commit with an open encoder"}
            rules |= dict.fromkeys(("encodeSignalEvent_value_", "encodeWaitForEvent_value_"), "event while encoding")
            self.trip(rules.get(message.name, "second encoder while one is open"), message.name)
        if message.name == "commit":
            commands.committed = True
            if commands.lost:
                self.trip("freed under an unretained command buffer", commands.lost)

    def handler(self, message: Message) -> None:
        self.trip("handler after commit" if message.receiver.state.committed else "Python handler", message.name)

    def before_wait(self, message: Message) -> None:
        if not message.receiver.state.committed:
            self.trip("wait before commit", message.name)

    def queue_full(self, message: Message) -> None:
        taken = [each for each in list(self._alive) if not each.state.committed or each.state.running]
        if len(taken) >= QUEUE:
            self.trip("queue full", f"{len(taken)} command buffers")

    # Encoders

    def end(self, message: Message) -> None:
        message.receiver.state.ended = True

    def set_pipeline(self, message: Message) -> None:
        message.receiver.state.pipeline = message.arguments[0].state
        self.keep(message.receiver.state, message.arguments[0])

    def set_buffer(self, message: Message) -> None:
        buffer, offset, index = message.arguments
        length = buffer._target.length()
        self._slot(index, "buffer")
        if offset >= length:
            self.trip("offset beyond the buffer", f"{offset} of {length}")
        message.receiver.state.buffers[index] = (length, offset)
        message.receiver.state.inline.pop(index, None)
        self.keep(message.receiver.state, buffer)

    def set_offset(self, message: Message) -> None:
        offset, index = message.arguments
        bound = message.receiver.state.buffers.get(index)
        if bound is None:
            self.trip("offset of an unbound slot", index)
        elif offset >= bound[0]:
            self.trip("offset beyond the buffer", f"{offset} of {bound[0]}")
        else:
            message.receiver.state.buffers[index] = (bound[0], offset)

    def set_bytes(self, message: Message) -> None:
        _, length, index = message.arguments
        self._slot(index, "bytes")
        if not 1 <= length <= INLINE:
            self.trip("setBytes length", length)
        message.receiver.state.inline[index] = length
        message.receiver.state.buffers.pop(index, None)

    def set_shared(self, message: Message) -> None:
        length, index = message.arguments
        self._slot(index, "threadgroup")
        if length % STEP or not length:
            self.trip("threadgroup memory step", length)
        if length > self.device.maxThreadgroupMemoryLength():
            self.trip("threadgroup memory", length)
        message.receiver.state.shared[index] = length

    def fence(self, message: Message) -> None:
        self.keep(message.receiver.state, message.arguments[0])

    def dispatch(self, message: Message) -> None:
        state: Encoder = message.receiver.state
        grid, group = message.arguments
        if min(*grid, *group) < 1:
            self.trip("zero-sized dispatch", message.arguments)
        if state.pipeline is None:
            self.trip("dispatch without a pipeline", grid)
            return
        threads = group[0] * group[1] * group[2]
        limits = self.device.maxThreadsPerThreadgroup()
        if threads > state.pipeline.max_threads or any(a > b for a, b in zip(group, limits, strict=True)):
            self.trip("threadgroup too large", f"{state.pipeline.name}: {group}")
        total = sum(state.shared.get(index, 0) for index in state.pipeline.shared) + state.pipeline.static
        if total > self.device.maxThreadgroupMemoryLength():
            self.trip("threadgroup memory", f"{state.pipeline.name}: {total}")
        if any(index not in state.shared for index in state.pipeline.shared):
            self.trip("missing binding", f"{state.pipeline.name}: threadgroup memory")
        for binding in state.pipeline.buffers:
            self._bound(state, *binding)

    def _bound(self, state: Encoder, slot: int, used: bool, size: int, alignment: int, written: bool) -> None:
        where = f"{state.pipeline.name if state.pipeline else ''} slot {slot}"
        if slot in state.inline:
            if written:
                self.trip("setBytes for a writable argument", where)
            if state.inline[slot] < size:
                self.trip("binding too short", where)
        elif slot in state.buffers:
            length, offset = state.buffers[slot]
            if offset % alignment:
                self.trip("misaligned offset", f"{where}: {offset}")
            if length - offset < size:
                self.trip("binding too short", where)
        elif used:
            self.trip("missing binding", where)

    def sample(self, message: Message) -> None:
        samples, index, _ = message.arguments
        if not self.device.supportsCounterSampling_(2):
            self.trip("sampleCounters unsupported", index)
        if index >= samples._target.sampleCount():
            self.trip("sample index", index)
        self.keep(message.receiver.state, samples)

    def _slot(self, index: int, what: str) -> None:
        if index >= SLOTS:
            self.trip("slot beyond 30", f"{what} {index}")

    # Memory

    def new_buffer(self, message: Message) -> None:
        if not 0 < message.arguments[0] <= self.device.maxBufferLength():
            self.trip("buffer length", message.arguments[0])

    def no_copy(self, message: Message) -> None:
        data, length = message.arguments[:2]
        view = memoryview(data)
        address = ctypes.addressof(ctypes.c_char.from_buffer(view)) if not view.readonly else 0
        if address % mmap.PAGESIZE or length % mmap.PAGESIZE or not length:
            self.trip("NoCopy alignment", f"{address:#x}, {length} bytes")

    def contents(self, message: Message) -> None:
        if message.receiver._target.storageMode() == 2:
            self.trip("contents of private storage", message.receiver)


def _reflected(mtl: Any, reflection: Any) -> Pipeline:
    buffers, shared = [], []
    for binding in reflection.bindings():
        if binding.type() == 0:
            size, alignment = binding.bufferDataSize(), max(1, binding.bufferAlignment())
            buffers.append((binding.index(), binding.isUsed(), size, alignment, binding.access() != 0))
        else:
            shared.append(binding.index())
    limits = mtl.maxTotalThreadsPerThreadgroup(), mtl.staticThreadgroupMemoryLength()
    return Pipeline(str(mtl), *limits, tuple(buffers), tuple(shared))


def guarded(backend: Backend) -> tuple[MlxDevice, ValidationLayer]:
    """A device all of whose messages pass the validation layer."""
    layer = ValidationLayer(backend.default_device())
    return MlxDevice(watched(backend, layer)), layer


T = ValidationLayer
RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "commit",
            "enqueue",
            "computeCommandEncoder",
            "computeCommandEncoderWithDispatchType_",
            "computeCommandEncoderWithDescriptor_",
            "blitCommandEncoder",
            "encodeSignalEvent_value_",
            "encodeWaitForEvent_value_",
        ),
        T.between_encoders,
    ),
    **dict.fromkeys(("addCompletedHandler_", "addScheduledHandler_"), T.handler),
    **dict.fromkeys(("waitUntilCompleted", "waitUntilScheduled"), T.before_wait),
    **dict.fromkeys(("commandBuffer", "commandBufferWithUnretainedReferences"), T.queue_full),
    **dict.fromkeys(
        ("dispatchThreads_threadsPerThreadgroup_", "dispatchThreadgroups_threadsPerThreadgroup_"), T.dispatch
    ),
    **dict.fromkeys(("updateFence_", "waitForFence_"), T.fence),
    "endEncoding": T.end,
    "setComputePipelineState_": T.set_pipeline,
    "setBuffer_offset_atIndex_": T.set_buffer,
    "setBufferOffset_atIndex_": T.set_offset,
    "setBytes_length_atIndex_": T.set_bytes,
    "setThreadgroupMemoryLength_atIndex_": T.set_shared,
    "sampleCountersInBuffer_atSampleIndex_withBarrier_": T.sample,
    "newBufferWithLength_options_": T.new_buffer,
    "newBufferWithBytesNoCopy_length_options_deallocator_": T.no_copy,
    "contents": T.contents,
}
