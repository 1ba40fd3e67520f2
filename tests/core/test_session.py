"""Sessions: stages behind fences, nothing lost between them, misuse refused."""

from __future__ import annotations

import gc

import pytest

from core.encoder_kit import floats, names, pipeline, record, soft_device
from mlx_native_py import MlxDevice, counters, settings
from mlx_native_py.encoder.session import EncoderSession
from mlx_native_py.errors import CommandBufferError, EncoderStateError, InvalidArgument
from mlx_native_py.profiling import kernel_profile


def test_stages_with_a_fence_between_them(device: MlxDevice) -> None:
    a, b, add = floats(device, 1, 2, 3, 4), floats(device, 10, 20, 30, 40), pipeline(device, "add")
    first, second = floats(device, *[0] * 4), floats(device, *[0] * 4)
    session = device.encoder_session()
    assert not session.has_event() and session.fence_value() == 0
    session.begin_stage("stage1")
    session.encoder().dispatch(add, a, b, first, threads=4)
    fence = session.fence_stage("stage1.fence")
    assert session.is_drained() and session.is_fence_pending() and session.has_event() and session.fence_value() == 1
    assert fence.label == "stage1.fence"
    session.reset_for_next_stage()
    assert not session.is_drained() and not session.is_fence_pending() and session.fence_value() == 1
    assert (session.wait_count(), session.wait_value(), session.ticket.label) == (1, 1, "")
    session.begin_stage("stage2")
    session.encoder().dispatch(add, first, floats(device, *[96] * 4), second, threads=4)
    session.commit_and_wait()
    assert first.numpy().tolist() == [11, 22, 33, 44]
    assert second.numpy().tolist() == [107, 118, 129, 140]
    assert session.ticket.label == "stage2"


def test_command_buffers_of_five_layers(device: MlxDevice) -> None:
    a, b, out, add = floats(device, 1), floats(device, 2), floats(device, 0), pipeline(device, "add")
    with counters.scope() as plain:
        for _ in range(10):
            enc = device.command_encoder()
            enc.dispatch(add, a, b, out, threads=1)
            enc.commit("plain")
    with counters.scope() as c:
        session = device.encoder_session()
        for layer in range(5):
            session.encoder().dispatch(add, a, b, out, threads=1)
            session.encoder().memory_barrier()
            session.encoder().dispatch(add, a, b, out, threads=1)
            session.fence_stage(f"layer{layer}")
            assert session.fence_value() == layer + 1
            if layer < 4:
                session.reset_for_next_stage()
                assert session.wait_count() == session.wait_value() == layer + 1
        session.ticket.wait()
    assert (session.fence_value(), session.wait_count(), session.wait_value()) == (5, 4, 4)
    assert (plain.cmd_bufs, c.cmd_bufs, c.syncs, c.barriers) == (10, 5, 0, 5)


@pytest.mark.soft
def test_a_fence_waits_before_the_first_dispatch() -> None:
    with soft_device() as device:
        log = record(device)
        session = device.encoder_session()
        session.encoder().dispatch(pipeline(device, "fill"), floats(device, 0), 1.0, threads=1)
        session.fence_stage()
        log.clear()
        session.reset_for_next_stage()
        session.encoder().dispatch(pipeline(device, "fill"), floats(device, 0), 1.0, threads=1)
        sent = names(log)
        assert sent.index("encodeWaitForEvent_value_") < sent.index("computeCommandEncoderWithDispatchType_")
        session.commit_and_wait()


def test_calls_that_may_be_repeated(device: MlxDevice) -> None:
    y = floats(device, 0)
    session = device.encoder_session()
    session.reset_for_next_stage()
    session.encoder().dispatch(pipeline(device, "fill"), y, 7.0, threads=1)
    with counters.scope() as c:
        ticket = session.commit_stage()
        assert session.commit_stage() is ticket
        session.commit_and_wait()
        session.commit_and_wait()
        assert c.syncs == 0
    assert y.numpy()[0] == 7.0 and session.is_drained() and not session.is_fence_pending()
    session.reset_for_next_stage()
    assert session.wait_count() == 0
    session.encoder().dispatch(pipeline(device, "fill"), y, 8.0, threads=1)
    fenced = session.fence_stage()
    assert session.fence_stage("again") is fenced and session.fence_value() == 1
    assert session.commit_stage() is fenced
    session.commit_and_wait()
    assert y.numpy()[0] == 8.0


def test_misuse_is_refused(device: MlxDevice) -> None:
    session = device.encoder_session()
    with pytest.raises(InvalidArgument, match="non-empty"):
        session.begin_stage("")
    session.commit_stage()
    with pytest.raises(EncoderStateError, match="has ended; call reset_for_next_stage"):
        session.encoder()
    with pytest.raises(EncoderStateError, match="'late' cannot begin"):
        session.begin_stage("late")
    with pytest.raises(EncoderStateError, match="without a fence"):
        session.fence_stage()
    session.reset_for_next_stage()
    session.fence_stage()


def test_committing_the_encoder_itself_ends_the_stage(device: MlxDevice) -> None:
    session = device.encoder_session()
    session.encoder().commit("direct")
    assert session.is_drained() and session.commit_stage().label == "direct"
    session.reset_for_next_stage()
    assert not session.is_drained()


@pytest.mark.soft
def test_errors_of_every_stage_are_raised() -> None:
    with soft_device() as device:
        y = floats(device, 0)
        session = device.encoder_session()
        for stage, kernel in enumerate(("fill", "far", "fill")):
            args = (y, float(stage)) if kernel == "fill" else (floats(device, 0),)
            session.encoder().dispatch(pipeline(device, kernel), *args, threads=1)
            session.fence_stage(f"stage{stage}")
            session.reset_for_next_stage()
        with pytest.raises(CommandBufferError, match="'stage1'.*far"):
            session.commit_and_wait()
        device.command_encoder().commit_and_wait()


def test_fenced_stages_are_profiled(device: MlxDevice) -> None:
    kernel_profile.reset()
    with settings.override(profile_cb=True), device.encoder_session() as session:
        for stage in range(3):
            session.encoder().dispatch(pipeline(device, "fill"), floats(device, 0), 1.0, threads=1)
            session.fence_stage(f"stage{stage}")
            session.reset_for_next_stage()
        session.begin_stage("last")
    assert sorted(label for label, _ in kernel_profile.dump()) == ["last", "stage0", "stage1", "stage2"]
    sequences = [entry.sequence for entry in kernel_profile.dump_command_buffers()]
    assert sequences == sorted(set(sequences)) and len(sequences) == 4
    kernel_profile.reset()


def test_a_capture_goes_through_all_stages(device: MlxDevice) -> None:
    y, fill = floats(device, 0), pipeline(device, "fill")
    session = device.encoder_session()
    session.encoder().start_capture()
    for value in (1.0, 2.0):
        session.encoder().dispatch(fill, y, value, threads=1)
        session.fence_stage()
        session.reset_for_next_stage()
    nodes = session.encoder().take_capture()
    assert nodes is not None and len(nodes) == 2
    session.commit_and_wait()
    assert y.numpy()[0] == 0.0


def test_residency_through_the_session(device: MlxDevice) -> None:
    if not device.residency_sets_enabled:
        assert not device.encoder_session().add_to_residency_set(floats(device, 0))
        return
    device.parameters  # noqa: B018  (made with the first encoder, and resident too)
    before = device.residency.count
    buffer = floats(device, 0)
    session = device.encoder_session()
    assert device.residency.count == before + 1
    assert session.remove_from_residency_set(buffer) and device.residency.count == before
    assert session.add_to_residency_set(buffer) and device.residency.count == before + 1
    del session, buffer
    gc.collect()
    assert device.residency.count == before


def test_a_dropped_session_leaves_the_device_usable(device: MlxDevice) -> None:
    a, out, add = floats(device, 7, 8), floats(device, 0, 0), pipeline(device, "add")
    session = device.encoder_session()
    session.encoder().dispatch(add, a, a, out, threads=2)
    del session
    gc.collect()
    with device.command_encoder() as enc:
        enc.dispatch(add, a, floats(device, 1, 2), out, threads=2)
    assert out.numpy().tolist() == [8.0, 10.0]


def test_scratch_may_be_dropped_behind_a_fence(device: MlxDevice) -> None:
    out, add = floats(device, 0), pipeline(device, "add")
    session = device.encoder_session(unretained_refs=True)
    scratch = floats(device, 1)
    session.encoder().dispatch(add, scratch, scratch, out, threads=1)
    session.fence_stage()
    del scratch
    gc.collect()
    session.reset_for_next_stage()
    session.encoder().dispatch(add, out, floats(device, 1), out, threads=1)
    session.commit_and_wait()
    assert out.numpy()[0] == 3.0


def test_an_exception_in_the_block_discards_the_stage(device: MlxDevice) -> None:
    y = floats(device, 0)
    with pytest.raises(KeyError):
        with device.encoder_session() as session:
            session.encoder().dispatch(pipeline(device, "fill"), y, 1.0, threads=1)
            raise KeyError
    device.command_encoder().commit_and_wait()
    assert y.numpy()[0] == 0.0 and "drained" in repr(session)


def test_the_flag_is_only_for_graphs() -> None:
    assert not EncoderSession.env_enabled()
    with settings.override(encoder_session=True):
        assert EncoderSession.env_enabled()
