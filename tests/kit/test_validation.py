"""The validation layer itself: whatever Metal answers with an abort or with silence is noticed, and nothing else is."""

from __future__ import annotations

import gc
import mmap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from kit.encoding import Namespace
from kit.programs import PROGRAMS, Run, pipelines
from kit.validation import guarded
from mlx_native_py import settings, softmetal
from mlx_native_py.encoder import Ticket
from mlx_native_py.errors import CommandBufferError
from mlx_native_py.metal import open_metal

pytestmark = [
    pytest.mark.soft,
    # Software Metal objects too, in finalisers as well.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Rig:
    """Metal's own objects, each one watched."""

    def __init__(self) -> None:
        namespace = Namespace(softmetal.DeviceProfile(), softmetal.SoftOptions(queue_patience_seconds=0.05))
        self.device, self.layer = guarded(replace(open_metal("soft"), Metal=namespace))
        self.buffer = self.device.mtl.newBufferWithLength_options_(64, 0)
        self.axpy, self.total, self.wide = (pipelines(self.device, name).mtl for name in ("axpy", "total", "wide"))

    def commands(self) -> Any:
        return self.device.queue.commandBuffer()

    def encoder(self, commands: Any = None) -> Any:
        return (commands or self.commands()).computeCommandEncoder()

    def bound(self, pipeline: Any) -> Any:
        """An encoder with a pipeline and buffers everywhere it needs them."""
        encoder = self.encoder()
        encoder.setComputePipelineState_(pipeline)
        for slot in range(3):
            encoder.setBuffer_offset_atIndex_(self.buffer, 0, slot)
        return encoder


ONE = (1, 1, 1)
Misuse = Callable[[Rig], object]


def dropped(rig: Rig) -> None:
    encoder = rig.encoder()
    del encoder
    gc.collect()


def twice(rig: Rig) -> None:
    commands = rig.commands()
    first = rig.encoder(commands)
    with suppress(RuntimeError):
        commands.computeCommandEncoder()
    first.endEncoding()


def while_open(send: Callable[[Any, Rig], object]) -> Misuse:
    def work(rig: Rig) -> None:
        commands = rig.commands()
        encoder = rig.encoder(commands)
        with suppress(RuntimeError):
            send(commands, rig)
        encoder.endEncoding()

    return work


def after_commit(send: Callable[[Any, Rig], object]) -> Misuse:
    def work(rig: Rig) -> None:
        commands = rig.commands()
        commands.commit()
        send(commands, rig)

    return work


def encoded(send: Callable[[Any, Rig], object], pipeline: str = "axpy") -> Misuse:
    def work(rig: Rig) -> None:
        encoder = rig.bound(getattr(rig, pipeline))
        try:
            send(encoder, rig)
        finally:
            encoder.endEncoding()

    return work


def after_end(rig: Rig) -> None:
    encoder = rig.encoder()
    encoder.endEncoding()
    encoder.setBuffer_offset_atIndex_(rig.buffer, 0, 0)


def missing(rig: Rig) -> None:
    encoder = rig.encoder()
    encoder.setComputePipelineState_(rig.axpy)
    encoder.setBuffer_offset_atIndex_(rig.buffer, 0, 0)
    try:
        encoder.dispatchThreads_threadsPerThreadgroup_(ONE, ONE)
    finally:
        encoder.endEncoding()


def unretained(rig: Rig) -> None:
    commands = rig.device.queue.commandBufferWithUnretainedReferences()
    encoder = commands.computeCommandEncoder()
    mine = rig.device.mtl.newBufferWithLength_options_(64, 0)
    encoder.setComputePipelineState_(pipelines(rig.device, "slow").mtl)
    encoder.setBuffer_offset_atIndex_(mine, 0, 0)
    encoder.setBytes_length_atIndex_((1_000).to_bytes(4, "little"), 4, 1)
    encoder.dispatchThreads_threadsPerThreadgroup_(ONE, ONE)
    encoder.endEncoding()
    commands.commit()
    keep = mine._target
    del mine
    commands.waitUntilCompleted()
    del keep


def freed_before_commit(rig: Rig) -> None:
    commands = rig.device.queue.commandBufferWithUnretainedReferences()
    encoder = commands.computeCommandEncoder()
    encoder.setBuffer_offset_atIndex_(rig.device.mtl.newBufferWithLength_options_(64, 0), 0, 0)
    encoder.endEncoding()
    commands.commit()


def crowd(rig: Rig) -> None:
    held = [rig.commands() for _ in range(64)]
    with suppress(softmetal.QueueFull):
        held.append(rig.commands())


def no_copy(rig: Rig) -> None:
    pages = mmap.mmap(-1, 3 * mmap.PAGESIZE)
    rig.device.mtl.newBufferWithBytesNoCopy_length_options_deallocator_(memoryview(pages)[8:], mmap.PAGESIZE, 0, None)


def private(rig: Rig) -> None:
    rig.device.mtl.newBufferWithLength_options_(64, softmetal.MTLResourceStorageModePrivate).contents()


def send_dispatch(grid: Any = ONE, group: Any = ONE) -> Callable[[Any, Rig], object]:
    return lambda encoder, _: encoder.dispatchThreads_threadsPerThreadgroup_(grid, group)


def after(*messages: tuple[Any, ...]) -> Callable[[Any, Rig], object]:
    def send(encoder: Any, rig: Rig) -> None:
        for name, *arguments in messages:
            getattr(encoder, name)(*(rig.buffer if each is Rig else each for each in arguments))
        encoder.dispatchThreads_threadsPerThreadgroup_(ONE, ONE)

    return send


MISUSES: list[tuple[str, Misuse]] = [
    ("encoder released without endEncoding", dropped),
    ("second encoder while one is open", twice),
    ("event while encoding", while_open(lambda c, r: c.encodeSignalEvent_value_(r.device.mtl.newSharedEvent(), 1))),
    ("event while encoding", while_open(lambda c, r: c.encodeWaitForEvent_value_(r.device.mtl.newSharedEvent(), 1))),
    ("commit with an open encoder", while_open(lambda c, _: c.commit())),
    ("handler after commit", after_commit(lambda c, _: c.addCompletedHandler_(print))),
    ("committed twice", after_commit(lambda c, _: c.commit())),
    ("after commit", after_commit(lambda c, _: c.computeCommandEncoder())),
    ("wait before commit", lambda rig: rig.commands().waitUntilCompleted()),
    ("queue full", crowd),
    ("use after endEncoding", after_end),
    (
        "sampleCounters unsupported",
        encoded(lambda e, r: e.sampleCountersInBuffer_atSampleIndex_withBarrier_(samples(r), 0, True)),
    ),
    ("threadgroup too large", encoded(send_dispatch(ONE, (2048, 1, 1)))),
    ("zero-sized dispatch", encoded(send_dispatch((0, 1, 1)))),
    ("zero-sized dispatch", encoded(send_dispatch(ONE, (1, 0, 1)))),
    ("setBytes length", encoded(lambda e, _: e.setBytes_length_atIndex_(bytes(4097), 4097, 2))),
    ("setBytes for a writable argument", encoded(after(("setBytes_length_atIndex_", bytes(4), 4, 1)))),
    ("threadgroup memory step", encoded(lambda e, _: e.setThreadgroupMemoryLength_atIndex_(20, 0))),
    ("threadgroup memory", encoded(after(("setThreadgroupMemoryLength_atIndex_", 32784, 0)), "total")),
    ("missing binding", missing),
    ("missing binding", encoded(send_dispatch(), "total")),
    ("dispatch without a pipeline", lambda rig: encoded(send_dispatch())(bare(rig))),
    ("offset beyond the buffer", encoded(lambda e, r: e.setBuffer_offset_atIndex_(r.buffer, 64, 0))),
    ("offset beyond the buffer", encoded(lambda e, _: e.setBufferOffset_atIndex_(80, 0))),
    ("misaligned offset", encoded(after(("setBuffer_offset_atIndex_", Rig, 4, 0)), "wide")),
    ("binding too short", encoded(after(("setBytes_length_atIndex_", b"12", 2, 2)))),
    ("slot beyond 30", encoded(lambda e, r: e.setBuffer_offset_atIndex_(r.buffer, 0, 31))),
    ("buffer length", lambda rig: rig.device.mtl.newBufferWithLength_options_(0, 0)),
    ("buffer length", lambda rig: rig.device.mtl.newBufferWithLength_options_(1 << 60, 0)),
    ("NoCopy alignment", no_copy),
    ("contents of private storage", private),
    ("freed under an unretained command buffer", unretained),
    ("freed under an unretained command buffer", freed_before_commit),
    ("message", lambda rig: rig.device.mtl.newBufferWithLength_options_(-1, 0)),
]


def samples(rig: Rig) -> Any:
    metal = rig.device.backend.Metal
    descriptor = metal.MTLCounterSampleBufferDescriptor.alloc().init()
    descriptor.setCounterSet_(rig.device.mtl.counterSets()[0])
    descriptor.setSampleCount_(8)
    return rig.device.mtl.newCounterSampleBufferWithDescriptor_error_(descriptor, None)[0]


def bare(rig: Rig) -> Rig:
    rig.bound = lambda pipeline: rig.encoder()  # type: ignore[method-assign]
    return rig


@pytest.mark.parametrize(("rule", "misuse"), MISUSES, ids=[f"{i}-{rule}" for i, (rule, _) in enumerate(MISUSES)])
def test_each_misuse_trips(rule: str, misuse: Misuse) -> None:
    rig = Rig()
    assert rig.layer.violations == []
    with suppress(RuntimeError, TypeError, ValueError):
        misuse(rig)
    assert rule in {violation.rule for violation in rig.layer.violations}


@pytest.mark.parametrize("profiled", [False, True])
@pytest.mark.parametrize("unretained", [False, True])
def test_right_programs_do_not_trip(unretained: bool, profiled: bool) -> None:
    rig = Rig()
    with settings.override(profile_cb=profiled, profile_dispatch=profiled):
        for program, expected in PROGRAMS.values():
            assert program(Run(rig.device, unretained=unretained)) == expected()
    rig.device.close()
    gc.collect()
    assert rig.layer.violations == []
    assert rig.layer.messages > 500


def forgetful(rig: Rig) -> None:
    """Three buffers, each used and dropped in turn, by an encoder that is dropped too; then other work."""
    fill = pipelines(rig.device, "fill")
    enc = rig.device.command_encoder(unretained_refs=True)
    for step in range(3):
        enc.dispatch(fill, rig.device.empty(64, "u32"), step, threads=64)
    enc.commit()
    del enc
    gc.collect()
    with rig.device.command_encoder() as enc:
        enc.dispatch(fill, rig.device.empty(64, "u32"), 1, threads=64)


def test_memory_outlives_unretained_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with settings.override(no_residency=True):
        rig, broken = Rig(), Rig()
    forgetful(rig)
    assert rig.layer.violations == []
    monkeypatch.setattr(Ticket, "hold", lambda self, allocation: None)
    with pytest.raises(CommandBufferError, match="released"):
        forgetful(broken)
    assert {each.rule for each in broken.layer.violations} == {"freed under an unretained command buffer"}
