"""Sessions: stages behind fences, nothing lost between them, misuse refused."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from kit.encoding import floats, names, pipeline, record, soft_device

from mlx_native_py import MlxDevice, counters, settings
from mlx_native_py.encoder import Dispatch
from mlx_native_py.encoder.session import EncoderSession
from mlx_native_py.errors import CommandBufferError, EncoderStateError, InvalidArgument
from mlx_native_py.profiling import kernel_profile


def plus(encoder: Any, a: Any, b: Any, out: Any) -> None:
    encoder.dispatch(pipeline(encoder.device, "add"), a, b, out, threads=len(out))


def test_a_session_needs_no_flag(device: MlxDevice) -> None:
    for wanted in (False, True):
        with settings.override(encoder_session=wanted):
            assert EncoderSession.env_enabled() is wanted
            session = device.encoder_session()
            assert not session.is_drained()
            session.encoder().discard()


def test_one_stage(device: MlxDevice) -> None:
    a, b, out = floats(device, 10, 20, 30, 40), floats(device, 1, 2, 3, 4), device.empty(4)
    session = device.encoder_session()
    session.begin_stage("stage one")
    plus(session.encoder(), a, b, out)
    assert not session.is_drained()
    label = session.metal_command_buffer()
    ticket = session.commit_stage()
    assert session.is_drained() and not session.is_fence_pending() and not session.has_event()
    assert str(label.label()) == "stage one" == ticket.label
    assert session.commit_stage() is ticket, "a second time changes nothing"
    ticket.wait()
    assert out.numpy().tolist() == [11, 22, 33, 44]


def test_commit_and_wait(device: MlxDevice) -> None:
    a, b, out = floats(device, 10.5, 20.5, 30.5, 40.5), floats(device, 1, 2, 3, 4), device.empty(4)
    session = device.encoder_session()
    with counters.scope() as c:
        session.begin_stage("whole")
        plus(session.encoder(), a, b, out)
        session.commit_and_wait()
        assert (c.syncs, session.is_drained(), session.ticket.label) == (1, True, "whole")
        assert out.numpy().tolist() == [11.5, 22.5, 33.5, 44.5]
        session.commit_and_wait()
    assert (c.syncs, c.cmd_bufs) == (1, 0)


def test_two_stages_behind_a_fence(device: MlxDevice) -> None:
    a, b, far = floats(device, 10, 20, 30, 40), floats(device, 1, 2, 3, 4), floats(device, 96, 186, 276, 366)
    first, second = device.empty(4), device.empty(4)
    session = device.encoder_session()
    assert (session.has_event(), session.fence_value(), session.wait_value(), session.wait_count()) == (False, 0, 0, 0)
    session.begin_stage("renamed")
    plus(session.encoder(), a, b, first)
    fenced = session.fence_stage("fence")
    assert (session.is_drained(), session.is_fence_pending(), session.has_event()) == (True, True, True)
    assert (session.fence_value(), fenced.label) == (1, "fence")
    assert session.fence_stage() is fenced
    session.reset_for_next_stage()
    assert (session.is_drained(), session.is_fence_pending(), session.fence_value()) == (False, False, 1)
    assert (session.wait_count(), session.wait_value(), session.ticket.label) == (1, 1, "")
    session.begin_stage("last")
    plus(session.encoder(), first, far, second)
    session.commit_and_wait()
    assert first.numpy().tolist() == [11, 22, 33, 44]
    assert second.numpy().tolist() == [107, 208, 309, 410]
    assert (session.ticket.label, session.fence_value(), session.wait_count()) == ("last", 1, 1)


def test_three_fences_in_a_row(device: MlxDevice) -> None:
    base, step = floats(device, 0, 100), floats(device, 11, 11)
    outs = [device.empty(2) for _ in range(4)]
    session = device.encoder_session()
    for stage in range(3):
        plus(session.encoder(), outs[stage - 1] if stage else base, step, outs[stage])
        session.fence_stage(None)
        assert (session.fence_value(), session.is_fence_pending()) == (stage + 1, True)
        session.reset_for_next_stage()
        assert (session.wait_count(), session.wait_value(), session.is_fence_pending()) == (stage + 1, stage + 1, False)
    plus(session.encoder(), outs[2], step, outs[3])
    session.commit_and_wait()
    assert [out.numpy().tolist() for out in outs] == [[11 * n, 100 + 11 * n] for n in (1, 2, 3, 4)]
    assert session.fence_value() == 3


def test_a_fence_between_layers_halves_the_command_buffers(device: MlxDevice) -> None:
    """Five pairs of layers: ten command buffers one by one, five in a session."""
    a, b, out = floats(device, 1, 2, 3, 4), floats(device, 10, 20, 30, 40), device.empty(4)
    with counters.scope() as plain:
        for layer in range(5):
            for part in ("attention", "ffn"):
                enc = device.command_encoder()
                plus(enc, a, b, out)
                enc.commit(label=f"plain.{part}.{layer}")
    with device.command_encoder() as drain:
        plus(drain, a, b, out)
    with counters.scope() as chained:
        session = device.encoder_session()
        for layer in range(5):
            plus(session.encoder(), a, b, out)
            session.encoder().memory_barrier()
            plus(session.encoder(), a, b, out)
            session.fence_stage(f"session.{layer}")
            assert session.fence_value() == layer + 1
            if layer < 4:
                session.reset_for_next_stage()
                assert session.wait_count() == session.wait_value() == layer + 1
    assert (session.fence_value(), session.wait_count(), session.wait_value()) == (5, 4, 4)
    session.ticket.wait()
    assert (session.fence_value(), session.wait_count(), session.wait_value()) == (5, 4, 4)
    assert (plain.cmd_bufs, chained.cmd_bufs) == (10, 5)
    assert chained.cmd_bufs * 2 <= plain.cmd_bufs
    assert (plain.syncs, chained.syncs, chained.barriers) == (0, 0, 5)
    assert out.numpy().tolist() == [11, 22, 33, 44]


def test_as_many_resets_as_fences(device: MlxDevice) -> None:
    with counters.scope() as c:
        session = device.encoder_session()
        for _ in range(5):
            session.fence_stage()
            session.reset_for_next_stage()
        session.commit_and_wait()
    assert (session.fence_value(), session.wait_count(), c.cmd_bufs, c.syncs) == (5, 5, 6, 1)


def test_stages_without_a_fence_follow_in_order(device: MlxDevice) -> None:
    x, one = floats(device, 0), floats(device, 1)
    session = device.encoder_session()
    for _ in range(3):
        plus(session.encoder(), x, one, x)
        session.commit_stage()
        session.reset_for_next_stage()
        session.reset_for_next_stage()  # nothing to do
    session.commit_and_wait()
    assert (x.numpy()[0], session.wait_count(), session.has_event()) == (3, 0, False)


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
    assert session.is_drained() and not session.is_fence_pending()
    assert session.commit_stage().label == "direct"
    session.reset_for_next_stage()
    assert not session.is_drained()
    session.commit_and_wait()


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


def test_a_session_that_is_dropped_discards_its_work(device: MlxDevice) -> None:
    a, b, out = floats(device, 7, 8), floats(device, 1, 2), floats(device, 0, 0)
    session = device.encoder_session()
    plus(session.encoder(), a, b, out)
    del session
    gc.collect()
    assert out.numpy().tolist() == [0, 0]
    with device.command_encoder() as enc:
        plus(enc, a, b, out)
    assert out.numpy().tolist() == [8, 10]


def test_a_block_commits_or_discards(device: MlxDevice) -> None:
    a, out = floats(device, 1, 2), floats(device, 0, 0)
    with device.encoder_session() as session:
        plus(session.encoder(), a, a, out)
    assert out.numpy().tolist() == [2, 4]
    with pytest.raises(KeyError), device.encoder_session() as session:
        plus(session.encoder(), out, out, out)
        raise KeyError
    device.command_encoder().commit_and_wait()
    assert out.numpy().tolist() == [2, 4] and "drained" in repr(session)


@pytest.mark.parametrize("bad", [0, 1])
def test_the_error_of_any_stage_comes_out(bad: int, soft: Any) -> None:
    with MlxDevice("soft") as device:
        x, session = floats(device, 1), device.encoder_session()
        for stage in range(3):
            plus(session.encoder(), x, x, x)
            if stage == bad:
                session.encoder().dispatch(pipeline(device, "far"), x, threads=1)
            session.fence_stage(f"stage {stage}")
            session.reset_for_next_stage()
        with pytest.raises(CommandBufferError, match=f"'stage {bad}'.*far") as caught:
            session.commit_and_wait()
        device.command_encoder().commit_and_wait()
    assert caught.value.label == f"stage {bad}"
    assert caught.value.dispatches == ("add", "far")


def test_residency_through_a_session(device: MlxDevice) -> None:
    device.parameters  # noqa: B018  (made with the first encoder, and resident too)
    before = device.residency.count
    session, buffer = device.encoder_session(), device.empty(4)
    if not device.residency_sets_enabled:
        assert not session.add_to_residency_set(buffer) and not session.remove_from_residency_set(buffer)
        return
    assert device.residency.count == before + 1
    assert session.remove_from_residency_set(buffer) and device.residency.count == before
    assert session.add_to_residency_set(buffer) and device.residency.count == before + 1
    session.encoder().discard()
    del session, buffer
    gc.collect()
    assert device.residency.count == before


@pytest.mark.parametrize("unretained", [False, True])
def test_scratch_may_go_between_fence_and_reset(device: MlxDevice, unretained: bool) -> None:
    device.parameters  # noqa: B018  (made with the first encoder, and resident too)
    before = device.residency.count
    a, out = floats(device, 1, 1, 1, 1), device.empty(4)
    scratch = floats(device, 2, 2, 2, 2)
    session = device.encoder_session(unretained_refs=unretained)
    plus(session.encoder(), a, scratch, out)
    ticket = session.fence_stage()
    del scratch
    gc.collect()
    session.reset_for_next_stage()
    ticket.wait()
    gc.collect()
    assert out.numpy().tolist() == [3, 3, 3, 3]
    assert device.residency.count == before + 2 * device.residency_sets_enabled
    plus(session.encoder(), out, a, out)
    session.commit_and_wait()
    assert out.numpy().tolist() == [4, 4, 4, 4]


def test_capture_survives_the_change_of_command_buffers(device: MlxDevice) -> None:
    a, out = floats(device, 1, 2), floats(device, 0, 0)
    session = device.encoder_session()
    session.encoder().start_capture()
    plus(session.encoder(), a, a, out)
    session.fence_stage()
    session.reset_for_next_stage()
    [node] = session.encoder().take_capture() or []
    assert isinstance(node, Dispatch)
    session.encoder().replay_dispatch(node)
    session.commit_and_wait()
    assert out.numpy().tolist() == [2, 4]
