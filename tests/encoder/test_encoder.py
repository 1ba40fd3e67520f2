"""The encoder: one pass, exact counters, barriers with reasons, states that cannot be confused."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from kit.encoding import floats, names, pipeline, record, soft_device
from kit.programs import numbers, pipelines

from mlx_native_py import MlxDevice, counters, settings, softmetal
from mlx_native_py.encoder import CapturedOpKind, CommandEncoder, Recorder
from mlx_native_py.encoder.submissions import SLOTS
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


@pytest.mark.parametrize(
    "call", ["dispatch", "memory_barrier", "commit", "commit_and_wait", "start_capture", "set_op_kind"]
)
@pytest.mark.parametrize("state", ["committed", "discarded"])
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
    else:
        enc.discard()
        assert "discarded" in attempt()


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


@pytest.mark.parametrize("waits", [True, False])
def test_the_label_is_on_the_command_buffer(device: MlxDevice, waits: bool) -> None:
    add, out = pipelines(device, "add"), device.empty(4, "u32")
    enc = device.command_encoder()
    enc.dispatch(add, numbers(device, 1, 2, 3, 4), numbers(device, 5, 6, 7, 8), out, threads=4)
    mtl = enc.metal_command_buffer()
    if waits:
        enc.commit_and_wait(label="named")
    else:
        enc.commit(label="named")
    assert str(mtl.label()) == "named" == enc.ticket.label
    enc.wait_until_completed()
    assert out.numpy().tolist() == [6, 8, 10, 12]


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


def test_encoders_are_dropped_without_harm(device: MlxDevice) -> None:
    twist, x = pipelines(device, "twist"), numbers(device, 1)
    for _ in range(100):
        device.command_encoder().dispatch(twist, x, threads=1)
    gc.collect()
    assert x.numpy()[0] == 1
    with device.command_encoder() as enc:
        enc.dispatch(twist, x, threads=1)
    assert x.numpy()[0] == 6


def test_too_many_open_encoders_raise_instead_of_waiting_for_ever(device: MlxDevice) -> None:
    encoders = []
    with pytest.raises(
        EncoderStateError, match=f"{SLOTS} command buffers .* neither committed nor dropped.*commit or drop"
    ):
        for _ in range(70):
            encoders.append(device.command_encoder())
    assert len(encoders) == SLOTS
    encoders.pop().discard()
    encoders.pop().commit()
    device.command_encoder().commit_and_wait()
    for enc in encoders:
        enc.discard()
    for _ in range(200):  # committed ones give their places back
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


@pytest.mark.parametrize("unretained", [True, False])
def test_buffers_may_go_before_the_work_is_done(device: MlxDevice, unretained: bool) -> None:
    add, slow = pipelines(device, "add", "slow")
    out = numbers(device, 0, 0)
    with settings.override(unretained_refs=unretained):
        enc = device.command_encoder()
    enc.dispatch(slow, numbers(device, 0), 100_000, threads=1, group=1)
    enc.dispatch(add, numbers(device, 1, 2), numbers(device, 3, 4), out, threads=2)
    ticket = enc.commit()
    del enc
    gc.collect()
    ticket.wait()
    assert out.numpy().tolist() == [4, 6]


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


def test_repr(device: MlxDevice) -> None:
    enc = CommandEncoder(device)
    assert repr(enc) == "<CommandEncoder, recording, 0 dispatches, 0 barriers>"
    enc.commit_and_wait()
    assert "committed" in repr(enc) and "done" in repr(enc.ticket)


def test_arguments_by_name(device: MlxDevice) -> None:
    x, y, axpy = floats(device, 1, 2), floats(device, 0, 0), pipeline(device, "axpy")
    recorder = Recorder(device)
    with device.command_encoder() as enc:
        for encoder in (enc, enc, enc, recorder):
            encoder.dispatch(axpy, a=2.0, y=y, x=x, threads=2)
            encoder.dispatch(axpy, x, threads=2, shared=(), a=1.0, y=y)
        with pytest.raises(InvalidArgument, match="lacks 'a'"):
            enc.dispatch(axpy, x, y=y, threads=2)
        with pytest.raises(InvalidArgument, match="'x' is given twice"):
            enc.dispatch(axpy, x, y=y, x=x, a=1.0, threads=2)
    assert y.numpy().tolist() == [9, 18] and len(recorder.nodes) == 2


@pytest.mark.parametrize("options", [{"thread": 2}, {"threads": 2, "writs": ()}, {"threads": 2, "shared": (), "z": 1}])
def test_options_that_there_are_not(device: MlxDevice, options: dict[str, Any]) -> None:
    x, y, axpy = floats(device, 1, 2), floats(device, 0, 0), pipeline(device, "axpy")
    with device.command_encoder() as enc:
        enc.dispatch(axpy, x, y, 1.0, threads=2, shared=())
        for refusing in (enc, Recorder(device)):
            with pytest.raises(TypeError, match="no option '(thread|writs|z)'; there are threads"):
                refusing.dispatch(axpy, x, y, 1.0, **options)
    assert y.numpy().tolist() == [1, 2]
