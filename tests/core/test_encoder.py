"""The encoder: one pass, exact counters, barriers with reasons, states that cannot be confused."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from core.encoder_kit import floats, names, pipeline, record, soft_device
from mlx_native_py import MlxDevice, counters, settings, softmetal
from mlx_native_py.encoder import CapturedOpKind, CommandEncoder, Out
from mlx_native_py.errors import EncoderStateError, InvalidArgument


def test_a_dispatch_computes(device: MlxDevice) -> None:
    x, y = floats(device, 1, 2, 3, 4), floats(device, 10, 20, 30, 40)
    with device.command_encoder() as enc:
        enc.dispatch(pipeline(device, "axpy"), x, y, 2.0, threads=4)
    assert y.numpy().tolist() == [12, 24, 36, 48]
    assert not enc.is_recording


def test_views_are_bound_at_their_offset(device: MlxDevice) -> None:
    x = floats(device, *range(8))
    with device.command_encoder() as enc:
        enc.dispatch(pipeline(device, "add"), x[0:2], x[2:4], x[6:8], threads=2)
    assert x.numpy()[6:].tolist() == [2.0, 4.0]


@pytest.mark.soft
@pytest.mark.parametrize("auto_barrier", [True, False])
@pytest.mark.parametrize("unretained", [True, False])
@pytest.mark.parametrize("schedule", ["ordered", "reversed", "shuffled:1", "shuffled:2", "shuffled:3"])
def test_chains_are_right_in_every_order(auto_barrier: bool, unretained: bool, schedule: str) -> None:
    with soft_device(schedule=schedule) as device:
        x, y = floats(device, 1, 2), floats(device, 0, 0)
        enc = device.command_encoder(auto_barrier=auto_barrier, unretained_refs=unretained)
        for step in range(6):
            enc.dispatch(pipeline(device, "axpy"), *((x, y) if step % 2 else (y, x)), 1.0, threads=2)
            if not auto_barrier:
                enc.memory_barrier()
        enc.commit_and_wait()
        assert (x.numpy().tolist(), y.numpy().tolist()) == ([5, 10], [8, 16])
        assert enc.tally.auto_barriers == (5 if auto_barrier else 0)


@pytest.mark.soft
def test_messages_of_a_pass() -> None:
    with soft_device() as device:
        log = record(device)
        x, y, axpy, fill = (
            floats(device, 1, 2),
            floats(device, 0, 0),
            pipeline(device, "axpy"),
            pipeline(device, "fill"),
        )
        enc = device.command_encoder()
        assert names(log) == ["commandBuffer"]
        enc.dispatch(axpy, x, y, 2.0, threads=2)
        assert names(log)[1:] == [
            "computeCommandEncoderWithDispatchType_",
            "setComputePipelineState_",
            "setBuffer_offset_atIndex_",
            "setBuffer_offset_atIndex_",
            "setBytes_length_atIndex_",
            "dispatchThreads_threadsPerThreadgroup_",
        ]
        assert log[1][1] == (softmetal.MTLDispatchTypeConcurrent,)
        log.clear()
        enc.dispatch(axpy, x, y, 2.0, threads=2)
        assert names(log) == ["memoryBarrierWithScope_", "dispatchThreads_threadsPerThreadgroup_"]
        log.clear()
        enc.dispatch(axpy, x[1:], y[0:1], 3.0, threads=1)
        assert names(log) == [
            "memoryBarrierWithScope_",
            "setBufferOffset_atIndex_",
            "setBytes_length_atIndex_",
            "dispatchThreads_threadsPerThreadgroup_",
        ]
        log.clear()
        enc.dispatch(fill, y[1:], 3.0, threadgroups=1, group=1)
        assert names(log) == [
            "setComputePipelineState_",
            "setBuffer_offset_atIndex_",
            "setBytes_length_atIndex_",
            "dispatchThreadgroups_threadsPerThreadgroup_",
        ]
        log.clear()
        enc.commit(label="step").wait()
        assert names(log)[:4] == ["setLabel_", "setLabel_", "endEncoding", "encodeSignalEvent_value_"]
        assert names(log)[4] == "commit"


@pytest.mark.soft
def test_every_message_is_in_the_contract() -> None:
    from mlx_native_py.metal.contract import CONTRACT

    known = {selector.python_name: len(selector.arguments) for selector in CONTRACT}
    with soft_device() as device, settings.override(profile_dispatch=True, profile_cb=True):
        log = record(device)
        x, out = floats(device, 1, 2), floats(device, 0)
        with device.command_encoder() as enc:
            enc.dispatch(pipeline(device, "total"), x, out, threads=2, group=2, shared=8)
            enc.memory_barrier()
            enc.dispatch(pipeline(device, "fill"), x, 1.0, threadgroups=1, group=2)
        assert {name for name, _ in log} <= set(known)
        assert all(len(args) == known[name] for name, args in log)


@pytest.mark.soft
@pytest.mark.parametrize("serial", [False, True])
def test_serial_dispatch_is_asked_for_at_each_open(serial: bool) -> None:
    with soft_device() as device:
        log = record(device)
        enc = device.command_encoder()
        with settings.override(force_serial_dispatch=serial):
            enc.dispatch(pipeline(device, "fill"), floats(device, 1), 1.0, threads=1)
        kinds = [args[0] for name, args in log if name == "computeCommandEncoderWithDispatchType_"]
        assert kinds == [softmetal.MTLDispatchTypeSerial if serial else softmetal.MTLDispatchTypeConcurrent]
        enc.commit_and_wait()


@pytest.mark.soft
def test_an_encoder_without_work_opens_no_pass() -> None:
    with soft_device() as device:
        log = record(device)
        device.command_encoder().commit_and_wait()
        assert "computeCommandEncoderWithDispatchType_" not in names(log)


def test_counters(device: MlxDevice) -> None:
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
def test_the_flag_turns_automatic_barriers_off(device: MlxDevice, gate: bool) -> None:
    y, fill = floats(device, 0, 0), pipeline(device, "fill")
    with settings.override(auto_barrier=gate), counters.scope() as c:
        enc = device.command_encoder()
        for _ in range(2):
            enc.dispatch(fill, y, 1.0, threads=2)
        enc.discard()
    assert (c.auto_barriers, c.auto_concurrent, c.barriers) == ((1, 1, 1) if gate else (0, 0, 0))


def test_each_barrier_says_why(device: MlxDevice) -> None:
    x, y = floats(device, 1, 2), floats(device, 0, 0)
    y.label = "sums"
    enc = device.command_encoder()
    enc.dispatch(pipeline(device, "fill"), y, 1.0, threads=2)
    enc.dispatch(pipeline(device, "axpy"), x, y, 1.0, threads=2, kind=CapturedOpKind.ElemAdd)
    enc.memory_barrier()
    (automatic, by_hand) = enc.barriers
    hazard = automatic.hazard
    assert hazard is not None and (hazard.kind.name, hazard.nbytes, hazard.offset) == ("RAW", 8, 0)
    assert (hazard.earlier.index, hazard.later.index, hazard.later.kind) == (0, 1, CapturedOpKind.ElemAdd)
    assert "dispatch 1 (axpy) reads bytes 0..8 of sums" in str(automatic)
    assert by_hand.by_hand and by_hand.hazard is None and str(by_hand) == "before dispatch 2: placed by hand"
    enc.discard()


def test_out_and_narrowed_ranges_spare_barriers(device: MlxDevice) -> None:
    x, y, add, axpy = (
        floats(device, 1, 2, 3, 4),
        floats(device, 0, 0, 0, 0),
        pipeline(device, "add"),
        pipeline(device, "axpy"),
    )
    enc = device.command_encoder()
    enc.dispatch(axpy, x, y, 1.0, threads=2, reads=[x[:2], y[:2]], writes=[y[:2]])
    enc.dispatch(axpy, x, y, 1.0, threads=2, reads=[x[2:], y[2:]], writes=[y[2:]])
    assert enc.barriers == []
    enc.dispatch(add, x, x, Out(y), threads=4)
    assert enc.barriers[0].hazard.kind.name in ("WAW", "WAR")  # type: ignore[union-attr]
    with pytest.raises(InvalidArgument, match="take buffers and views"):
        enc.dispatch(add, x, x, y, threads=4, reads=[1])  # type: ignore[list-item]
    enc.commit_and_wait()


def test_reads_between_reads_need_no_barrier(device: MlxDevice) -> None:
    x = floats(device, 1, 2)
    enc = device.command_encoder()
    for _ in range(4):
        enc.dispatch(pipeline(device, "add"), x, x, floats(device, 0, 0), threads=2)
    assert enc.barriers == []
    enc.commit_and_wait()


@pytest.mark.parametrize(
    "call", ["dispatch", "memory_barrier", "commit", "commit_and_wait", "start_capture", "set_op_kind"]
)
@pytest.mark.parametrize("state", ["committed", "discarded", "foreign thread"])
def test_states_are_guarded(device: MlxDevice, call: str, state: str) -> None:
    enc = device.command_encoder()
    fill, y = pipeline(device, "fill"), floats(device, 1)
    arguments: dict[str, tuple[Any, ...]] = {"set_op_kind": (CapturedOpKind.Sdpa,), "dispatch": (fill, y, 1.0)}

    def attempt() -> str:
        with pytest.raises(EncoderStateError) as caught:
            getattr(enc, call)(*arguments.get(call, ()), **({"threads": 1} if call == "dispatch" else {}))
        return str(caught.value)

    if state == "committed":
        enc.commit_and_wait()
        assert "committed already" in attempt()
    elif state == "discarded":
        enc.discard()
        assert "discarded" in attempt()
    else:
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(attempt()))
        thread.start()
        thread.join()
        assert "belongs to thread" in found[0]
        enc.discard()


def test_waiting_before_commit_is_refused(device: MlxDevice) -> None:
    enc = device.command_encoder()
    with pytest.raises(EncoderStateError, match="before commit"):
        enc.wait_until_completed()
    with pytest.raises(EncoderStateError, match="was not committed"):
        enc.ticket.wait()
    enc.discard()
    with pytest.raises(EncoderStateError, match="discarded"):
        enc.wait_until_completed()


@pytest.mark.parametrize("label", ["", 3])
def test_labels_say_something(device: MlxDevice, label: Any) -> None:
    enc = device.command_encoder()
    with pytest.raises(InvalidArgument, match="non-empty str"):
        enc.commit(label)
    assert enc.is_recording
    enc.commit_and_wait("named")


def test_an_exception_in_the_block_discards_the_work(device: MlxDevice) -> None:
    y = floats(device, 0)
    with counters.scope() as c, pytest.raises(KeyError):
        with device.command_encoder() as enc:
            enc.dispatch(pipeline(device, "fill"), y, 1.0, threads=1)
            raise KeyError
    assert c.syncs == 0 and not enc.is_recording
    device.command_encoder().commit_and_wait()
    assert y.numpy()[0] == 0.0
    enc.discard()


@pytest.mark.soft
def test_a_dropped_encoder_ends_its_pass() -> None:
    with soft_device() as device:
        log = record(device)
        enc = device.command_encoder()
        enc.dispatch(pipeline(device, "fill"), floats(device, 1), 1.0, threads=1)
        ticket = enc.ticket
        with pytest.warns(ResourceWarning, match="1 dispatch was encoded and never committed"):
            del enc
            gc.collect()
        assert names(log)[-1] == "endEncoding"
        assert ticket.done() and not ticket.is_submitted


@pytest.mark.soft
def test_too_many_open_encoders_raise_instead_of_waiting_for_ever() -> None:
    with soft_device(queue_patience_seconds=0.5) as device:
        held = [device.command_encoder() for _ in range(64)]
        with pytest.raises(EncoderStateError, match="64 command buffers .* neither committed nor dropped"):
            device.command_encoder()
        held.pop().discard()
        held.append(device.command_encoder())
        held.pop().commit_and_wait()
        del held
        gc.collect()
        for _ in range(200):
            device.command_encoder().commit()
        device.command_encoder().commit_and_wait()


@pytest.mark.soft
def test_buffers_live_until_the_gpu_is_done() -> None:
    with soft_device() as device:
        enc = device.command_encoder(unretained_refs=True)
        out = floats(device, 0, 0)
        for value in (1.0, 2.0):
            scratch = device.buffer(np.full(2, value, np.float32))
            enc.dispatch(pipeline(device, "axpy"), scratch, out, 1.0, threads=2)
            del scratch
        gc.collect()
        ticket = enc.commit()
        assert len(ticket.keep) in (3, 0)
        ticket.wait()
        assert out.numpy().tolist() == [3.0, 3.0] and not ticket.keep


def test_memory_is_busy_from_encoding_to_completion(device: MlxDevice) -> None:
    y = floats(device, 0)
    enc = device.command_encoder()
    enc.dispatch(pipeline(device, "fill"), y, 1.0, threads=1)
    assert y.allocation.is_busy()
    other = device.command_encoder()
    other.dispatch(pipeline(device, "fill"), y, 1.0, threads=1)
    other.commit_and_wait()
    assert y.allocation.is_busy(), "the first encoder may still be committed"
    enc.commit_and_wait()
    assert not y.allocation.is_busy()


def test_a_closed_device_takes_nothing(device: MlxDevice) -> None:
    enc = device.command_encoder()
    device.close()
    with pytest.raises(EncoderStateError, match="closed"):
        enc.commit()


def test_eight_threads_with_encoders_of_their_own(device: MlxDevice) -> None:
    axpy = pipeline(device, "axpy")
    x = floats(device, *range(16))
    results: dict[int, list[float]] = {}

    def work(which: int) -> None:
        y = device.alloc_buffer(64, "f32", 16)
        for _ in range(10):
            with device.command_encoder() as enc:
                for _ in range(10):
                    enc.dispatch(axpy, x, y, float(which), threads=16)
        results[which] = y.numpy().tolist()

    with counters.scope(all_threads=True) as c:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (c.dispatches, c.syncs, c.cmd_bufs, c.auto_barriers) == (800, 80, 80, 720)
    assert results == {n: [100.0 * n * i for i in range(16)] for n in range(8)}


def test_repr(device: MlxDevice) -> None:
    enc = CommandEncoder(device)
    assert repr(enc) == "<CommandEncoder, recording, 0 dispatches, 0 barriers>"
    enc.commit_and_wait()
    assert "committed" in repr(enc) and "done" in repr(enc.ticket)
