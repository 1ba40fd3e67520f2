"""Random calls, legal and illegal: only clear refusals, nothing hangs, and the device works afterwards."""

from __future__ import annotations

import gc
import random
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal

from .objects_kit import array, buffer, default_device, finish, pipeline

STEPS = 30


class Model:
    """What the rules say about one command buffer and its encoder."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.buffers = [buffer(np.zeros(16, np.float32)) for _ in range(2)]
        self.renew()

    def renew(self) -> None:
        self.command_buffer = self.queue.commandBuffer()
        self.encoder: Any = None
        self.ended: Any = None
        self.committed = False
        self.state: dict[str, Any] = {"pipeline": False, "bound": set()}

    @property
    def recording(self) -> bool:
        return not self.committed and self.encoder is None

    def begin(self) -> bool:
        legal = self.recording
        encoder = self.command_buffer.computeCommandEncoderWithDispatchType_(1)
        self.encoder, self.state = encoder, {"pipeline": False, "bound": set()}
        return legal

    def end(self) -> bool:
        target = self.encoder or self.ended
        legal = self.encoder is not None
        if target is None:
            raise Metal.MetalMisuse("there is no encoder")
        target.endEncoding()
        self.ended, self.encoder = target, None
        return legal

    def commit(self) -> bool:
        legal = self.recording
        self.command_buffer.commit()
        self.committed = True
        return legal

    def wait(self) -> bool:
        legal = self.committed
        self.command_buffer.waitUntilCompleted()
        return legal

    def handle(self) -> bool:
        legal = not self.committed
        self.command_buffer.addCompletedHandler_(lambda _: None)
        return legal

    def signal(self) -> bool:
        legal = self.recording
        self.command_buffer.encodeSignalEvent_value_(default_device().newSharedEvent(), 1)
        return legal

    def _encode(self, call: Callable[[Any], None]) -> bool:
        target, legal = self.encoder or self.ended, self.encoder is not None
        if target is None:
            raise Metal.MetalMisuse("there is no encoder")
        call(target)
        return legal

    def choose(self) -> bool:
        legal = self._encode(lambda e: e.setComputePipelineState_(pipeline("add")))
        self.state["pipeline"] = True
        return legal

    def bind(self, index: int) -> bool:
        legal = self._encode(lambda e: e.setBuffer_offset_atIndex_(self.buffers[index % 2], 0, index)) and index < 31
        self.state["bound"].add(index)
        return legal

    def inline(self) -> bool:
        legal = self._encode(lambda e: e.setBytes_length_atIndex_(struct.pack("<f", 1), 4, 2))
        self.state["bound"].add(2)
        return legal

    def dispatch(self, threads: int, group: int) -> bool:
        ready = self.state["pipeline"] and {0, 1, 2} <= self.state["bound"]
        sizes = 0 < threads and 0 < group <= 1024
        self_legal = self.encoder is not None and ready and sizes
        return (
            self._encode(lambda e: e.dispatchThreads_threadsPerThreadgroup_((threads, 1, 1), (group, 1, 1)))
            and self_legal
        )

    def barrier(self) -> bool:
        return self._encode(lambda e: e.memoryBarrierWithScope_(1))


def moves(model: Model, dice: random.Random) -> list[Callable[[], bool]]:
    return [
        model.begin,
        model.end,
        model.commit,
        model.wait,
        model.handle,
        model.signal,
        model.choose,
        lambda: model.bind(dice.choice([0, 1, 0, 1, 31])),
        model.inline,
        lambda: model.dispatch(dice.choice([16, 16, 5, 0]), dice.choice([4, 16, 2000])),
        model.barrier,
    ]


@pytest.mark.parametrize("seed", range(8))
def test_random_sequences(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # lost encoders are reported there
    dice, queue = random.Random(seed), default_device().newCommandQueue()
    for _ in range(25):
        model = Model(queue)
        for _ in range(STEPS):
            try:
                legal = dice.choice(moves(model, dice))()
            except Metal.MetalMisuse as refusal:
                assert str(refusal)
                continue
            assert legal
            if model.committed and dice.random() < 0.5:
                model.renew()
        if model.encoder is not None:
            model.encoder.endEncoding()
    command_buffer = queue.commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    encoder.setComputePipelineState_(pipeline("add"))
    source, target = buffer(np.arange(4, dtype=np.float32)), buffer(np.zeros(4, np.float32))
    encoder.setBuffers_offsets_withRange_([source, target], [0, 0], (0, 2))
    encoder.setBytes_length_atIndex_(struct.pack("<f", 1), 4, 2)
    encoder.dispatchThreads_threadsPerThreadgroup_((4, 1, 1), (4, 1, 1))
    encoder.endEncoding()
    finish(command_buffer)
    assert list(array(target)) == [1, 2, 3, 4]


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.full
def test_a_long_run_takes_no_memory() -> None:
    queue, source = default_device().newCommandQueue(), buffer(np.ones(64, np.float32))

    def batch(count: int) -> None:
        for _ in range(count):
            command_buffer = queue.commandBuffer()
            encoder = command_buffer.computeCommandEncoderWithDispatchType_(1)
            encoder.setComputePipelineState_(pipeline("add"))
            encoder.setBuffers_offsets_withRange_([source, buffer(np.zeros(64, np.float32))], [0, 0], (0, 2))
            for _ in range(50):
                encoder.setBytes_length_atIndex_(bytes(4), 4, 2)
                encoder.dispatchThreads_threadsPerThreadgroup_((64, 1, 1), (64, 1, 1))
            encoder.endEncoding()
            command_buffer.commit()
        finish(queue.commandBuffer())

    batch(500)
    gc.collect()  # what earlier tests dropped is not counted
    start, allocated = resident_bytes(), default_device().currentAllocatedSize()
    batch(2000)
    assert resident_bytes() - start < 100_000
    assert default_device().currentAllocatedSize() == allocated
