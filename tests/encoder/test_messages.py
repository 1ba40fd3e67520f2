"""Exactly which messages a dispatch sends, each one checked against PyObjC's selector table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from kit.encoding import DISPATCH, STAGE, sampling, soft_device
from kit.programs import PROGRAMS, SOURCE, Run, numbers
from kit.spy import Message, Recorder, Seen, watched

from encoder.message_table import ROWS, SENT, faults, selector_of
from mlx_native_py import MlxDevice, settings, softmetal
from mlx_native_py.encoder import CommandEncoder, Dispatch, Out
from mlx_native_py.metal import Backend

PASS = "computeCommandEncoderWithDispatchType_"
PIPELINE, BUFFER, OFFSET, BYTES, SHARED = (
    "setComputePipelineState_",
    "setBuffer_offset_atIndex_",
    "setBufferOffset_atIndex_",
    "setBytes_length_atIndex_",
    "setThreadgroupMemoryLength_atIndex_",
)
BARRIER, THREADS, GROUPS = (
    "memoryBarrierWithScope_",
    "dispatchThreads_threadsPerThreadgroup_",
    "dispatchThreadgroups_threadsPerThreadgroup_",
)


@dataclass
class Recorded:
    """A device whose messages are written down, two buffers, and an encoder with an open pass."""

    device: MlxDevice
    recorder: Recorder
    x: Any
    y: Any

    def kernel(self, name: str, **more: Any) -> Any:
        library = self.device.kernels.library(SOURCE)
        return self.device.kernels.get_pipeline(name, library=library, **more)

    def sent(self, work: Callable[[], object]) -> list[tuple[Any, ...]]:
        """(selector, arguments...) of what `work` sends."""
        self.recorder.take()
        work()
        log = self.recorder.take()
        assert [fault for message in log for fault in faults(message)] == []
        return [(message.name, *message.arguments) for message in log]


def record(backend: Backend) -> Iterator[Recorded]:
    recorder = Recorder()
    with MlxDevice(watched(replace(backend, parameter_arena=False), recorder)) as device:
        recorded = Recorded(device, recorder, numbers(device, *range(64)), numbers(device, *range(64)))
        yield recorded
        assert [fault for message in recorder.log for fault in faults(message)] == []


@pytest.fixture
def seen(backend: Backend) -> Iterator[Recorded]:
    yield from record(backend)


@dataclass(frozen=True)
class Shape:
    """One dispatch, and the messages that it sends into an open pass after `fill(y, 1)`; mtl(b) is `b`'s MTLBuffer."""

    kernel: str
    send: Callable[[CommandEncoder, Recorded, Any], object]
    messages: Callable[[Recorded], list[tuple[Any, ...]]]
    constants: dict[int, int] | None = None


def u32(*values: int) -> bytes:
    return np.array(values, np.uint32).tobytes()


SHAPES = {
    "threads": Shape(
        "axpy",
        lambda enc, at, k: enc.dispatch(k, at.x, at.x[0:4], 2, threads=4, group=4),
        lambda at: [
            (BUFFER, at.x.mtl, 0, 0),
            (BUFFER, at.x.mtl, 0, 1),
            (BYTES, u32(2), 4, 2),
            (THREADS, (4, 1, 1), (4, 1, 1)),
        ],
    ),
    "threadgroups": Shape(
        "twist",
        lambda enc, at, k: enc.dispatch(k, at.x, threadgroups=(2, 1), group=32),
        lambda at: [(BUFFER, at.x.mtl, 0, 0), (GROUPS, (2, 1, 1), (32, 1, 1))],
    ),
    "a group left open": Shape(
        "box",
        lambda enc, at, k: enc.dispatch(k, at.x, threads=(4, 2, 2)),
        lambda at: [(BUFFER, at.x.mtl, 0, 0), (THREADS, (4, 2, 2), (8, 2, 2))],
    ),
    "a view": Shape(
        "twist",
        lambda enc, at, k: enc.dispatch(k, at.x[3:5], threads=2, group=2),
        lambda at: [(BUFFER, at.x.mtl, 12, 0), (THREADS, (2, 1, 1), (2, 1, 1))],
    ),
    "another view of what is bound": Shape(
        "twist",
        lambda enc, at, k: enc.dispatch(k, at.y[9:], threads=2, group=2),
        lambda at: [(BARRIER, 1), (OFFSET, 36, 0), (THREADS, (2, 1, 1), (2, 1, 1))],
    ),
    "what is bound already": Shape(
        "twist",
        lambda enc, at, k: enc.dispatch(k, at.y, threads=2, group=2),
        lambda at: [(BARRIER, 1), (THREADS, (2, 1, 1), (2, 1, 1))],
    ),
    "None for what is bound": Shape(
        "fill",
        lambda enc, at, k: enc.dispatch(k, None, 3, threads=2, group=2),
        lambda at: [(BARRIER, 1), (BYTES, u32(3), 4, 1), (THREADS, (2, 1, 1), (2, 1, 1))],
    ),
    "the same again": Shape(
        "fill",
        lambda enc, at, k: enc.dispatch(k, at.y, 1, threads=2, group=2),
        lambda at: [(BARRIER, 1), (THREADS, (2, 1, 1), (2, 1, 1))],
    ),
    "Out of a stranger": Shape(
        "add",
        lambda enc, at, k: enc.dispatch(k, at.x[0:2], at.x[2:4], Out(at.x[4:6]), threads=2, group=2),
        lambda at: [*((BUFFER, at.x.mtl, 8 * slot, slot) for slot in range(3)), (THREADS, (2, 1, 1), (2, 1, 1))],
    ),
    "a hazard": Shape(
        "add",
        lambda enc, at, k: enc.dispatch(k, at.y, at.x, at.x, threads=2, group=2),
        lambda at: [
            (BARRIER, 1),
            *((BUFFER, at.x.mtl, 0, slot) for slot in (1, 2)),
            (THREADS, (2, 1, 1), (2, 1, 1)),
        ],
    ),
    "threadgroup memory": Shape(
        "total",
        lambda enc, at, k: enc.dispatch(k, at.x, at.x[60:], threads=2, group=2, shared=9),
        lambda at: [
            (BUFFER, at.x.mtl, 0, 0),
            (BUFFER, at.x.mtl, 240, 1),
            (SHARED, 16, 0),
            (THREADS, (2, 1, 1), (2, 1, 1)),
        ],
    ),
    "a gap and a vector of three": Shape(
        "gap",
        lambda enc, at, k: enc.dispatch(k, at.x, None, (2, 3, 4), threads=1, group=1),
        lambda at: [(BUFFER, at.x.mtl, 0, 0), (BYTES, u32(2, 3, 4, 0), 16, 2), (THREADS, (1, 1, 1), (1, 1, 1))],
    ),
    "bytes of four kilobytes": Shape(
        "table",
        lambda enc, at, k: enc.dispatch(k, bytes(4096), at.x, threads=2, group=2),
        lambda at: [(BYTES, bytes(4096), 4096, 0), (BUFFER, at.x.mtl, 0, 1), (THREADS, (2, 1, 1), (2, 1, 1))],
    ),
    "a function constant": Shape(
        "special",
        lambda enc, at, k: enc.dispatch(k, at.x, threads=1, group=1),
        lambda at: [(BUFFER, at.x.mtl, 0, 0), (THREADS, (1, 1, 1), (1, 1, 1))],
        constants={0: 7},
    ),
}


@pytest.mark.parametrize("title", SHAPES)
def test_a_dispatch_sends_exactly_these_messages(seen: Recorded, title: str) -> None:
    shape = SHAPES[title]
    first, kernel = seen.kernel("fill"), seen.kernel(shape.kernel, constants=shape.constants)
    with seen.device.command_encoder() as enc:
        enc.dispatch(first, seen.y, 1, threads=2, group=2)
        result = seen.sent(lambda: shape.send(enc, seen, kernel))
    expected = shape.messages(seen)
    if kernel is not first:
        expected.insert(int(expected[0][0] == BARRIER), (PIPELINE, kernel.mtl))
    assert result == expected


def test_bytes_beyond_the_limit_travel_in_a_buffer(seen: Recorded) -> None:
    kernel = seen.kernel("table")
    with seen.device.command_encoder() as enc:
        result = seen.sent(lambda: enc.dispatch(kernel, bytes(4100), seen.x, threads=2, group=2))
    names = [name for name, *_ in result]
    assert names == ["newBufferWithLength_options_", "contents", PASS, PIPELINE, BUFFER, BUFFER, THREADS]
    assert result[0][1] == 4100


def test_a_command_buffer_from_birth_to_completion(seen: Recorded) -> None:
    kernel, metal = seen.kernel("fill"), seen.device.backend.Metal
    seen.device.submissions  # noqa: B018  (makes the queue's event)
    seen.device.residency.flush()
    made: list[CommandEncoder] = []
    assert seen.sent(lambda: made.append(seen.device.command_encoder())) == [("commandBuffer",)]
    found = seen.sent(lambda: made[0].dispatch(kernel, seen.y, 1, threads=2, group=2))
    assert found[0] == (PASS, metal.MTLDispatchTypeConcurrent)
    assert [name for name, *_ in found] == [PASS, PIPELINE, BUFFER, BYTES, THREADS]
    found = seen.sent(lambda: made[0].commit(label="step"))
    assert found[:3] == [("setLabel_", "step"), ("setLabel_", "step"), ("endEncoding",)]
    assert [name for name, *_ in found[3:]] == ["encodeSignalEvent_value_", "commit"]
    found = seen.sent(made[0].wait_until_completed)
    wanted = {"status", "waitUntilSignaledValue_timeoutMS_", "waitUntilCompleted", "GPUStartTime", "GPUEndTime"}
    assert {name for name, *_ in found} <= wanted


def test_a_fence_and_the_wait_behind_it(seen: Recorded) -> None:
    kernel, session = seen.kernel("fill"), seen.device.encoder_session()
    session.encoder().dispatch(kernel, seen.y, 1, threads=2, group=2)
    result = seen.sent(lambda: session.fence_stage("one"))
    labels = ["setLabel_", "setLabel_"]
    commits = [name for name, *_ in result if name not in ("addAllocations_count_", "requestResidency")]
    assert commits[0] == "newSharedEvent"
    assert commits[1:6] == [*labels, "endEncoding", "encodeSignalEvent_value_", *commits[5:6]]
    assert commits[-2:] == ["encodeSignalEvent_value_", "commit"]
    result = seen.sent(session.reset_for_next_stage)
    assert [name for name, *_ in result if name != "status"] == ["commandBuffer", "encodeWaitForEvent_value_"]
    session.commit_and_wait()


@pytest.mark.soft
@pytest.mark.parametrize("in_pass", [False, True], ids=["stage", "dispatch"])
def test_a_timed_dispatch(in_pass: bool) -> None:
    profile = sampling(STAGE, DISPATCH) if in_pass else sampling(STAGE)
    for seen in record(soft_device(profile).backend):
        kernel = seen.kernel("fill")

        def again(seen: Recorded = seen, kernel: Any = kernel) -> None:
            enc.dispatch(kernel, seen.x, 1, threads=2, group=2)

        with settings.override(profile_dispatch=True), seen.device.command_encoder() as enc:
            enc.dispatch(kernel, seen.y, 1, threads=2, group=2)
            names = [name for name, *_ in seen.sent(again)]
        sample = "sampleCountersInBuffer_atSampleIndex_withBarrier_"
        if in_pass:
            assert names == [sample, BUFFER, THREADS, sample]
        else:
            assert names[0] == "endEncoding"
            assert names[names.index("computeCommandEncoderWithDescriptor_") + 1 :] == [
                "waitForFence_",
                PIPELINE,
                BUFFER,
                BYTES,
                THREADS,
                "updateFence_",
            ]


def test_replay_sends_what_the_dispatch_would_have(seen: Recorded) -> None:
    kernel, logs = seen.kernel("axpy"), []
    for captured in (False, True):
        with seen.device.command_encoder() as enc:
            if captured:
                enc.start_capture()
                quiet = seen.sent(lambda: enc.dispatch(kernel, seen.x, seen.y, 2, threads=4))
                nodes = enc.take_capture() or []
                assert quiet == [] and isinstance(nodes[0], Dispatch)
                logs.append(seen.sent(partial(enc.replay_dispatch, nodes[0])))
            else:
                logs.append(seen.sent(lambda: enc.dispatch(kernel, seen.x, seen.y, 2, threads=4)))
    assert logs[0] == logs[1]


def test_refused_dispatches_send_nothing(seen: Recorded) -> None:
    kernel = seen.kernel("axpy")
    with seen.device.command_encoder() as enc:
        enc.dispatch(kernel, seen.x, seen.y, 2, threads=4)
        for wrong in ((seen.x, seen.y), (seen.x, seen.y, -1), (seen.x, 7, 1), (seen.x[1:], seen.y, 0.5)):
            refused = partial(pytest.raises, ValueError, enc.dispatch, kernel, *wrong, threads=4)
            assert seen.sent(refused) == []


def test_everything_the_programs_send_is_in_the_table(backend: Backend) -> None:
    """From opening the device to closing it, with profiles, sessions, capture, pools and replays."""
    recorder = Recorder()
    with MlxDevice(watched(replace(backend, parameter_arena=False), recorder)) as device:
        for profiled in (False, True):
            with settings.override(profile_cb=profiled, profile_dispatch=profiled):
                for program, expected in PROGRAMS.values():
                    assert program(Run(device, unretained=profiled)) == expected()
    assert [fault for message in recorder.log for fault in faults(message)] == []
    assert len({message.name for message in recorder.log} - {"alloc", "init"}) > 50


FAULTY = [
    ("setBuffer_offset_atIndex_", (None, -1, 0), "argument 1 is -1"),
    ("setBuffer_offset_atIndex_", (None, 1.0, 0), "argument 1 is 1.0"),
    ("setBuffer_offset_atIndex_", (None, 0), "takes 3 arguments, 2 were sent"),
    ("setBytes_length_atIndex_", (b"12", 4, 0), "argument 0"),
    ("dispatchThreads_threadsPerThreadgroup_", ([1, 1, 1], (1, 1, 1)), "argument 0"),
    ("dispatchThreads_threadsPerThreadgroup_", ((1, 1), (1, 1, 1)), "argument 0"),
    ("addCompletedHandler_", (print,), "not in the contract"),
]


@pytest.mark.soft
@pytest.mark.parametrize(("name", "arguments", "complaint"), FAULTY)
def test_the_check_itself_finds_faults(name: str, arguments: tuple[Any, ...], complaint: str) -> None:
    queue = soft_device().queue
    commands = queue.commandBuffer()
    encoder = commands.computeCommandEncoder()
    receiver = Seen(encoder if hasattr(encoder, name) else commands, Recorder())
    try:
        assert any(complaint in fault for fault in faults(Message(receiver, name, arguments)))
    finally:
        encoder.endEncoding()


def test_the_contract_is_within_the_table() -> None:
    for lines in SENT.values():
        for line in lines:
            assert len(ROWS[line.owner, line.name]["args"]) == len(line.arguments)
    assert selector_of(Message(Seen(softmetal.MTLComputePassDescriptor, Recorder()), "computePassDescriptor", ()))
