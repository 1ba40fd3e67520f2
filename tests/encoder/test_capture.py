"""Capture mode: dispatches as values, counted when captured, replayed to the same result."""

from __future__ import annotations

import pytest
from kit.encoding import floats, names, pipeline, record, soft_device

from mlx_native_py import MlxDevice, counters
from mlx_native_py.encoder import (
    CapturedBarrier,
    CapturedNode,
    CapturedOpKind,
    Dispatch,
    DispatchKind,
    RecordedBinding,
)
from mlx_native_py.errors import EncoderStateError, InvalidArgument


def test_a_captured_dispatch_is_a_value(device: MlxDevice) -> None:
    x, out = floats(device, 1, 2, 3, 4), floats(device, 0)
    enc = device.command_encoder()
    assert not enc.is_capturing() and enc.take_capture() is None
    enc.start_capture()
    assert enc.is_capturing()
    enc.dispatch(pipeline(device, "total"), x[1:], out, threadgroups=1, group=3, shared=12, kind=CapturedOpKind.Softmax)
    nodes = enc.take_capture()
    assert nodes is not None and len(nodes) == 1 and not enc.is_capturing()
    node = nodes[0]
    assert isinstance(node, Dispatch) and isinstance(node, CapturedNode)
    assert node.pipeline is pipeline(device, "total")
    assert [(b.slot, b.is_buffer) for b in node.bindings] == [(0, True), (1, True)]
    assert node.bindings[0].value.offset == 4  # type: ignore[union-attr]
    assert (node.dispatch_kind, node.threads_per_grid) == (DispatchKind.ThreadGroups, (1, 1, 1))
    assert (node.threads_per_threadgroup, node.threadgroup_memory) == ((3, 1, 1), ((0, 16),))
    assert node.op_kind is CapturedOpKind.Softmax and not node.op_kind.is_reorderable()
    assert [r.span for r in node.reads] == [x[1:].span, out.span] and [w.span for w in node.writes] == [out.span]
    enc.replay_dispatch(node)
    enc.commit_and_wait()
    assert out.numpy()[0] == 9.0


@pytest.mark.soft
def test_capturing_sends_nothing() -> None:
    with soft_device() as device:
        log = record(device)
        enc = device.command_encoder()
        enc.start_capture()
        enc.dispatch(pipeline(device, "fill"), floats(device, 0), 1.0, threads=1)
        enc.memory_barrier()
        assert names(log) == ["commandBuffer"]
        nodes = enc.take_capture()
        assert nodes is not None and nodes[1] == CapturedBarrier()
        enc.discard()


def test_counters_of_capture_and_replay(device: MlxDevice) -> None:
    y, fill = floats(device, 0), pipeline(device, "fill")
    enc = device.command_encoder()
    with counters.scope() as c:
        enc.start_capture()
        for _ in range(3):
            enc.dispatch(fill, y, 1.0, threads=1)
            enc.memory_barrier()
        assert (c.dispatches, c.barriers, c.auto_barriers, c.auto_concurrent) == (3, 0, 0, 0)
        nodes = enc.take_capture()
        assert nodes is not None and len(nodes) == 6
        for node in nodes:
            if isinstance(node, Dispatch):
                enc.replay_dispatch(node)
            else:
                enc.memory_barrier()
        assert (c.dispatches, c.barriers, c.auto_barriers, c.auto_concurrent) == (3, 3, 0, 3)
    enc.commit_and_wait()


def test_replay_places_the_barriers_that_are_missing(device: MlxDevice) -> None:
    x, y = floats(device, 1, 2), floats(device, 0, 0)
    enc = device.command_encoder()
    enc.start_capture()
    for _ in range(3):
        enc.dispatch(pipeline(device, "axpy"), x, y, 1.0, threads=2)
    nodes = enc.take_capture() or []
    for node in nodes:
        enc.replay_dispatch(node)  # type: ignore[arg-type]
    assert len(enc.barriers) == 2
    enc.commit_and_wait()
    assert y.numpy().tolist() == [3.0, 6.0]


def test_nodes_outlive_their_encoder_and_keep_their_buffers(device: MlxDevice) -> None:
    y = floats(device, 0)
    enc = device.command_encoder()
    enc.start_capture()
    enc.dispatch(pipeline(device, "axpy"), floats(device, 5), y, 2.0, threads=1)
    (node,) = enc.take_capture() or []
    enc.discard()
    del enc
    for _ in range(2):
        with device.command_encoder() as other:
            other.replay_dispatch(node)  # type: ignore[arg-type]
    assert y.numpy()[0] == 20.0
    assert node.bindings[2] == RecordedBinding(2, b"\0\0\0@")  # type: ignore[attr-defined]


def test_a_replay_while_capturing_goes_to_the_gpu(device: MlxDevice) -> None:
    y = floats(device, 0)
    enc = device.command_encoder()
    enc.start_capture()
    enc.dispatch(pipeline(device, "fill"), y, 4.0, threads=1)
    (node,) = enc.take_capture() or []
    enc.start_capture()
    enc.replay_dispatch(node)  # type: ignore[arg-type]
    assert enc.take_capture() == []
    enc.commit_and_wait()
    assert y.numpy()[0] == 4.0


def test_none_in_a_capture_means_the_captured_slot(device: MlxDevice) -> None:
    x, y, axpy = floats(device, 1), floats(device, 0), pipeline(device, "axpy")
    enc = device.command_encoder()
    enc.dispatch(axpy, x, y, 1.0, threads=1)
    enc.start_capture()
    with pytest.raises(InvalidArgument, match="nothing was bound"):
        enc.dispatch(axpy, None, y, 1.0, threads=1)
    enc.dispatch(axpy, x, y, 2.0, threads=1)
    enc.dispatch(axpy, None, None, None, threads=1)
    nodes = enc.take_capture() or []
    assert [b.value for b in nodes[1].bindings] == [b.value for b in nodes[0].bindings]  # type: ignore[attr-defined]
    enc.discard()


def test_a_capture_under_way_is_not_thrown_away(device: MlxDevice) -> None:
    enc = device.command_encoder()
    enc.start_capture()
    enc.start_capture()
    enc.memory_barrier()
    with pytest.raises(EncoderStateError, match="a capture of 1 nodes is under way"):
        enc.start_capture()
    enc.discard()
    assert enc.take_capture() == [CapturedBarrier()]


def test_set_op_kind_tags_the_next_dispatch_only(device: MlxDevice) -> None:
    y, fill = floats(device, 0), pipeline(device, "fill")
    enc = device.command_encoder()
    enc.start_capture()
    enc.set_op_kind(CapturedOpKind.Sdpa)
    enc.dispatch(fill, y, 1.0, threads=1)
    enc.dispatch(fill, y, 1.0, threads=1)
    enc.set_op_kind(CapturedOpKind.Sdpa)
    enc.dispatch(fill, y, 1.0, threads=1, kind=CapturedOpKind.RmsNorm)
    enc.dispatch(fill, y, 1.0, threads=1)
    kinds = [node.op_kind.value for node in enc.take_capture() or []]  # type: ignore[attr-defined]
    assert kinds == ["Sdpa", "Other", "RmsNorm", "Other"]
    enc.discard()


def test_replay_takes_dispatches_only(device: MlxDevice) -> None:
    enc = device.command_encoder()
    with pytest.raises(InvalidArgument, match="takes a Dispatch"):
        enc.replay_dispatch(CapturedBarrier())  # type: ignore[arg-type]
    enc.discard()
