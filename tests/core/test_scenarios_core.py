"""Scenarios of the crate's own tests for device, buffers, pool, registry, barriers, counters and labels."""

from __future__ import annotations

import gc
import mmap
from typing import Any

import numpy as np
import pytest

from core.encoder_kit import soft_device
from core.programs import SOURCE, numbers, pipelines
from mlx_native_py import (
    BufferRange,
    Dispatch,
    DType,
    InvalidArgument,
    KernelNotFound,
    MemRangeRole,
    MemRanges,
    MlxDevice,
    counters,
    settings,
)
from mlx_native_py.encoder import CapturedBarrier, CapturedOpKind
from mlx_native_py.errors import CommandBufferError, EncoderStateError

SEVEN = ("dispatch", "sync", "cmd_buf", "barrier", "auto_barrier", "auto_barrier_concurrent")


def figures() -> dict[str, int]:
    return {name: getattr(counters, f"{name}_count")() for name in SEVEN}


# Barriers


@pytest.mark.parametrize("gate", [True, False])
def test_two_runs_are_the_same_with_and_without_the_gate(device: MlxDevice, gate: bool) -> None:
    add, runs = pipelines(device, "add"), []
    for _ in range(2):
        a, b, out = device.empty(64, "u32").fill(1), device.empty(64, "u32").fill(2), device.empty(64, "u32")
        with device.command_encoder(auto_barrier=gate) as enc:
            enc.dispatch(add, a, b, out, threads=64)
        runs.append(out.numpy().tolist())
    assert runs == [[3] * 64] * 2


def test_a_closed_gate_leaves_the_automatic_counters_alone(device: MlxDevice) -> None:
    twist, x = pipelines(device, "twist"), numbers(device, 1)
    with counters.scope() as c, settings.override(auto_barrier=False), device.command_encoder() as enc:
        for _ in range(3):
            enc.dispatch(twist, x, threads=1)
            enc.memory_barrier()
    assert (c.auto_barriers, c.auto_concurrent, c.barriers, c.dispatches) == (0, 0, 3, 3)


def test_ranges_in_public(device: MlxDevice) -> None:
    a, b, ranges = numbers(device, 1), numbers(device, 2), MemRanges()
    assert ranges.is_empty() and ranges.check_dispatch([b], [a])
    ranges.add_dispatch([b], [a])
    assert ranges.len() == 2
    assert not ranges.check_dispatch([a], [])
    assert (ranges.barriers_forced(), ranges.checks()) == (1, 2)
    ranges.reset()
    assert ranges.is_empty() and ranges.check_dispatch([a], []) and ranges.barriers_forced() == 1


@pytest.mark.parametrize(
    ("first", "second", "free"),
    [
        ("Src", "Src", True),
        ("Dst", "Src", False),
        ("Src", "Dst", False),
        ("Dst", "Dst", False),
    ],
)
def test_roles_and_places(device: MlxDevice, first: str, second: str, free: bool) -> None:
    whole, other = device.empty(16, "u32"), device.empty(16, "u32")
    one, two = MemRangeRole[first], MemRangeRole[second]

    def apart(left: Any, right: Any) -> bool:
        a, b = BufferRange.from_buffer(left, one), BufferRange.from_buffer(right, two)
        assert a.conflicts_with(b) == b.conflicts_with(a)
        return not a.conflicts_with(b)

    assert apart(whole, whole) is free and apart(whole[0:9], whole[8:16]) is free
    assert apart(whole, other) and apart(whole[0:8], whole[8:16]), "neighbours share nothing"


def test_a_chain_forces_one_barrier_for_each_hand_over(device: MlxDevice) -> None:
    x, y, ranges = numbers(device, 1), numbers(device, 2), MemRanges()
    for reads, writes in (([], [x]), ([x], [y]), ([y], [])):
        if not ranges.check_and_record(reads, writes):
            ranges.reset()
            ranges.add_dispatch(reads, writes)
    assert ranges.barriers_forced() == 2


def test_two_wrappers_over_the_same_memory_are_one(device: MlxDevice) -> None:
    pages = mmap.mmap(-1, mmap.PAGESIZE)
    one, two = device.buffer(pages, "u32", copy=False), device.buffer(pages, "u32", copy=False)
    fill, twist = pipelines(device, "fill", "twist")
    with device.command_encoder() as enc:
        enc.dispatch(fill, one, 7, threads=4)
        enc.dispatch(twist, two, threads=4)
    assert [barrier.by_hand for barrier in enc.barriers] == [False]
    assert two.numpy()[:4].tolist() == [36, 41, 46, 51]


# Counters


def test_where_barriers_count(device: MlxDevice) -> None:
    counters.reset_counters()
    with counters.scope() as c:
        enc = device.command_encoder()
        enc.memory_barrier()
        assert c.barriers == 0, "no pass is open"
        enc.start_capture()
        for _ in range(3):
            enc.memory_barrier()
        assert (c.barriers, enc.take_capture()) == (0, [CapturedBarrier()] * 3)
        enc.dispatch(pipelines(device, "twist"), numbers(device, 1), threads=1)
        for _ in range(3):
            enc.memory_barrier()
        assert (c.barriers, c.barrier_ns, counters.barrier_total_ns()) == (3, 0, 0)
        enc.commit_and_wait()


def test_every_counter_by_its_definition(device: MlxDevice) -> None:
    twist, x, y = pipelines(device, "twist"), numbers(device, 1), numbers(device, 1)
    counters.reset_counters()
    assert set(figures().values()) == {0}
    enc = device.command_encoder()
    enc.dispatch(twist, x, threads=1)
    enc.dispatch(twist, y, threads=1)
    enc.dispatch(twist, x, threads=1)
    assert figures() == {
        **dict.fromkeys(SEVEN, 0),
        "dispatch": 3,
        "cmd_buf": 1,
        "barrier": 1,
        "auto_barrier": 1,
        "auto_barrier_concurrent": 2,
    }
    enc.commit().wait()
    enc.wait_until_completed()
    assert figures()["sync"] == 0, "waiting for what was committed is no sync"
    second = device.command_encoder()
    second.start_capture()
    second.dispatch(twist, x, threads=1)
    [node] = second.take_capture() or []
    before = figures()
    assert isinstance(node, Dispatch)
    second.replay_dispatch(node)
    assert figures()["dispatch"] == before["dispatch"] == 4, "counted when it was captured"
    second.commit_and_wait()
    assert (figures()["sync"], figures()["cmd_buf"]) == (1, 2)
    device.command_encoder().commit_wait_with_gpu_time()
    assert (figures()["sync"], figures()["cmd_buf"]) == (2, 3)
    counters.reset_counters()
    assert set(figures().values()) == {0}


def test_a_failing_command_buffer_counts_as_a_sync(soft: Any) -> None:
    source = "kernel void astray(device float *out [[buffer(0)]]) { out[1u << 30] = 1; }"
    with soft_device() as device, counters.scope() as c:
        enc = device.command_encoder()
        enc.dispatch(
            device.kernels.get_pipeline("astray", library=device.kernels.library(source)), device.empty(4), threads=1
        )
        with pytest.raises(CommandBufferError, match="'lost'.*astray") as caught:
            enc.commit_and_wait(label="lost")
        assert (c.syncs, caught.value.label, caught.value.is_transient) == (1, "lost", True)
        with pytest.raises(CommandBufferError, match="lost"):
            enc.wait_until_completed()
        device.command_encoder().commit_and_wait()  # the device goes on


# Labels, references, drops


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


def test_encoders_are_dropped_without_harm(device: MlxDevice) -> None:
    twist, x = pipelines(device, "twist"), numbers(device, 1)
    for _ in range(100):
        device.command_encoder().dispatch(twist, x, threads=1)
    gc.collect()
    assert x.numpy()[0] == 1
    with device.command_encoder() as enc:
        enc.dispatch(twist, x, threads=1)
    assert x.numpy()[0] == 6


def test_the_kind_of_the_next_dispatch_only(device: MlxDevice) -> None:
    twist, x = pipelines(device, "twist"), numbers(device, 1)
    with device.command_encoder() as enc:
        enc.start_capture()
        enc.set_op_kind(CapturedOpKind.Softmax)
        enc.dispatch(twist, x, threads=1)
        enc.dispatch(twist, x, threads=1)
        enc.dispatch(twist, x, threads=1, kind=CapturedOpKind.RmsNorm)
        kinds = [node.op_kind.name for node in enc.take_capture() or []]  # type: ignore[attr-defined]
    assert kinds == ["Softmax", "Other", "RmsNorm"]


# Device, buffers, pool, registry


def test_the_life_of_a_buffer(device: MlxDevice) -> None:
    assert device.name
    buffer = device.alloc_buffer(40, DType.F32, (2, 5))
    assert (buffer.nbytes, buffer.dtype, buffer.shape, buffer.size, buffer.offset) == (40, DType.F32, (2, 5), 10, 0)
    assert not buffer.numpy().any()
    buffer.numpy()[...] = np.arange(10, dtype=np.float32).reshape(2, 5) * 1.5
    assert buffer[1:][0][2:4].numpy().tolist() == [10.5, 12.0]
    assert "f32[2, 5]" in repr(buffer)
    with pytest.raises(InvalidArgument, match="byte_len"):
        device.alloc_buffer(0, DType.F32, 0)
    device.command_encoder().commit_and_wait()


def test_a_view_is_exact_everywhere(device: MlxDevice) -> None:
    """Length, CPU access, views of views and what kernels see."""
    parent = numbers(device, *range(12))
    view = parent.slice_view(16, 6).slice_view(8, 3)
    assert (view.offset, view.nbytes, view.numpy().tolist()) == (24, 12, [6, 7, 8])
    with device.command_encoder() as enc:
        enc.dispatch(pipelines(device, "twist"), view, threads=3)
    assert parent.numpy().tolist() == [0, 1, 2, 3, 4, 5, 31, 36, 41, 9, 10, 11]
    with pytest.raises(InvalidArgument, match="beyond the end"):
        view.slice_view(4, 3)
    with pytest.raises(InvalidArgument, match="16 bytes.*12"), device.command_encoder() as enc:
        enc.dispatch(pipelines(device, "wide"), view, threads=1)


def test_the_pool_while_work_is_on_its_way(device: MlxDevice) -> None:
    pool, (slow, fill) = device.buffer_pool(), pipelines(device, "slow", "fill")
    first = pool.alloc(100, "u8", 100).view("u32")
    where = first.span[1]
    enc = device.command_encoder()
    enc.dispatch(slow, first, 3_000_000, threads=1, group=1)
    ticket = enc.commit()
    pool.reset()
    second = pool.alloc(128, "u32", 32)
    assert second.span[1] != where or ticket.done()
    ticket.wait()
    third = pool.alloc(65, "u8", 65)
    assert {where, second.span[1]} >= {third.span[1]}
    with pytest.raises(EncoderStateError, match="pool"), device.command_encoder() as enc:
        enc.dispatch(fill, first, 1, threads=1)
    assert (pool.in_use_count, [pool.alloc(n, "u8", n).allocation.nbytes for n in (1, 3, 5, 1025)]) == (
        2,
        [1, 4, 8, 2048],
    )


def test_the_registry_keeps_what_it_made(device: MlxDevice) -> None:
    kernels = device.kernels
    kernels.register_source("scenario", SOURCE)
    assert kernels.get_pipeline("twist") is kernels.get_pipeline("twist")
    four, eight = (kernels.get_pipeline("special", {0: np.uint32(n)}) for n in (4, 8))
    assert four is not eight and four is kernels.get_pipeline("special", {"N": np.uint32(4)})
    out = []
    for special in (four, eight):
        x = numbers(device, 0)
        with device.command_encoder() as enc:
            enc.dispatch(special, x, threads=1)
        out.append(int(x.numpy()[0]))
    assert out == [4, 8]
    with pytest.raises(KernelNotFound, match="twisd.*Did you mean 'twist'") as caught:
        kernels.get_pipeline("twisd")
    assert caught.value.name == "twisd"
