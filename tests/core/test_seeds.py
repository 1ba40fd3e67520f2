"""The scenarios that the crate tests itself with: profiling, sessions, barriers, labels and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from core.encoder_kit import DISPATCH, STAGE, sampling, soft_device
from mlx_native_py import (
    CapturedOpKind,
    CommandEncoder,
    DType,
    EncoderSession,
    InvalidArgument,
    KernelNotFound,
    MemRanges,
    MlxBuffer,
    MlxDevice,
    counters,
    settings,
)
from mlx_native_py.profiling import kernel_profile

INC_ONE = """
#include <metal_stdlib>
using namespace metal;
kernel void inc_one(device const float *in [[buffer(0)]], device float *out [[buffer(1)]],
                    uint id [[thread_position_in_grid]]) { out[id] = in[id] + 1.0f; }
"""
ABILITIES = {"stage": [STAGE], "dispatch": [DISPATCH], "neither": []}


def floats(device: MlxDevice, *values: float) -> MlxBuffer:
    return device.buffer(np.array(values, np.float32))


def add(enc: CommandEncoder, a: MlxBuffer, b: MlxBuffer, out: MlxBuffer) -> None:
    pipeline = enc.device.kernels.get_pipeline("elementwise_add_f32")
    enc.dispatch(pipeline, a, b, out, out.size, threads=out.size, kind=CapturedOpKind.ElemAdd)


def values(buffer: MlxBuffer) -> list[float]:
    return list(buffer.numpy().tolist())


# Dispatch profile


@contextmanager
def profiled(ability: str, size: int = 64) -> Iterator[tuple[MlxDevice, Any]]:
    kernel_profile.reset()
    with (
        settings.override(profile_cb=True, profile_dispatch=True),
        soft_device(sampling(*ABILITIES[ability])) as device,
    ):
        device.kernels.register_source("inc_one", INC_ONE)
        pipeline = device.kernels.get_pipeline("inc_one")
        source, target = device.buffer(np.arange(size, dtype=np.float32)), device.alloc_buffer(4 * size, "f32", size)
        launch = {"threadgroups": -(-size // 32), "group": 32}
        yield device, lambda enc: enc.dispatch(pipeline, source, target, **launch)
    kernel_profile.reset()


@pytest.mark.soft
@pytest.mark.parametrize("ability", ABILITIES)
def test_dispatch_profile_of_two_dispatches(ability: str) -> None:
    with profiled(ability, 256) as (device, inc):
        enc = device.command_encoder()
        inc(enc)
        enc.memory_barrier()
        inc(enc)
        enc.commit_and_wait(label="test.profile.cb")
        whole = dict(kernel_profile.dump())["test.profile.cb"]
        found = dict(kernel_profile.dump_dispatches())
        if ability == "neither":
            assert found == {} and whole.count == 1
            return
        entries = found["test.profile.cb"]
    assert [entry.dispatch_index for entry in entries] == [0, 1]
    assert all(entry.end_gpu_ns >= entry.start_gpu_ns and entry.op_kind == "Other" for entry in entries)
    assert whole.total_ns + 1_000_000 >= sum(entry.gpu_ns for entry in entries)


@pytest.mark.soft
@pytest.mark.parametrize("ability", ["stage", "dispatch"])
def test_dispatch_profile_by_label_and_kind(ability: str) -> None:
    with profiled(ability) as (device, inc):
        for label in ("test.cb.alpha", "test.cb.beta"):
            enc = device.command_encoder()
            enc.set_op_kind(CapturedOpKind.Sdpa)
            inc(enc)
            enc.commit_and_wait(label=label)
        found = kernel_profile.dump_dispatches()
    assert [label for label, _ in found] == ["test.cb.alpha", "test.cb.beta"]
    assert [[(e.dispatch_index, e.op_kind) for e in entries] for _, entries in found] == [[(0, "Sdpa")]] * 2


def test_kernel_profile_units() -> None:
    kernel_profile.reset()
    for label, ns in (("A", 100), ("A", 200), ("B", 50)):
        kernel_profile.record(label, ns)
    (first, a), (second, b) = kernel_profile.dump()
    assert (first, a.count, a.total_ns, a.min_ns, a.max_ns, second, b.count) == ("A", 2, 300, 100, 200, "B", 1)
    assert kernel_profile.convert_gpu_ticks_to_ns(77) == 77
    kernel_profile.record_clock_pair(0, 1000)
    assert kernel_profile.convert_gpu_ticks_to_ns(77) == 77
    kernel_profile.record_clock_pair(2000, 1000)
    assert (kernel_profile.convert_gpu_ticks_to_ns(500), kernel_profile.convert_gpu_ticks_to_ns(0)) == (1000, 0)
    kernel_profile.reset()
    assert kernel_profile.dump() == [] and kernel_profile.dump_dispatches() == []


# Sessions


def test_session_halves_the_command_buffers(device: MlxDevice) -> None:
    a, b, attention, output = (floats(device, 1, 2, 3, 4) for _ in range(4))
    with counters.scope() as plain:
        for _ in range(5):
            for operands in ((a, b, attention), (attention, b, output)):
                enc = device.command_encoder()
                add(enc, *operands)
                enc.commit(label="layer")
        enc.wait_until_completed()
    with counters.scope() as sessioned:
        session = device.encoder_session()
        for layer in range(5):
            add(session.encoder(), a, b, attention)
            session.encoder().memory_barrier()
            add(session.encoder(), attention, b, output)
            session.fence_stage(f"attn.{layer}")
            if layer < 4:
                session.reset_for_next_stage()
        session.commit_and_wait()
    assert (session.fence_value(), session.wait_count(), session.wait_value()) == (5, 4, 4)
    assert (plain.cmd_bufs, sessioned.cmd_bufs, sessioned.syncs) == (10, 5, 0)
    assert values(output) == [3, 6, 9, 12]


def test_session_lifecycle(device: MlxDevice) -> None:
    assert EncoderSession.env_enabled() == settings.current().encoder_session
    session, out = device.encoder_session(), device.empty(4)
    assert not session.is_drained()
    session.begin_stage("lifecycle")
    add(session.encoder(), floats(device, 10, 20, 30, 40), floats(device, 1, 2, 3, 4), out)
    ticket = session.commit_stage()
    assert session.is_drained() and ticket.label == "lifecycle" and session.commit_stage() is ticket
    ticket.wait()
    assert values(out) == [11, 22, 33, 44]


def test_session_waits_and_counts_one_sync(device: MlxDevice) -> None:
    session, out = device.encoder_session(), device.empty(4)
    session.begin_stage("sync")
    add(session.encoder(), floats(device, 10, 20, 30, 40), floats(device, 1.5, 2.5, 3.5, 4.5), out)
    with counters.scope() as counted:
        session.commit_and_wait()
        session.commit_and_wait()
    assert counted.syncs == 1 and values(out) == [11.5, 22.5, 33.5, 44.5]


def test_session_dropped_before_its_commit(device: MlxDevice) -> None:
    session = device.encoder_session()
    add(session.encoder(), floats(device, 1), floats(device, 1), device.empty(1))
    del session
    with device.command_encoder() as enc:
        add(enc, floats(device, 7, 8), floats(device, 1, 2), out := device.empty(2))
    assert values(out) == [8, 10]


def test_session_of_two_stages(device: MlxDevice) -> None:
    session, one, two = device.encoder_session(), device.empty(4), device.empty(4)
    assert (session.has_event(), session.fence_value()) == (False, 0)
    add(session.encoder(), floats(device, 10, 20, 30, 40), floats(device, 1, 2, 3, 4), one)
    fenced = session.fence_stage("stage1.fence")
    assert session.is_drained() and session.is_fence_pending() and session.has_event()
    assert (session.fence_value(), fenced.label) == (1, "stage1.fence")
    session.reset_for_next_stage()
    assert not session.is_drained() and not session.is_fence_pending() and session.fence_value() == 1
    session.begin_stage("stage2")
    add(session.encoder(), floats(device, 100, 200, 300, 400), floats(device, 7, 8, 9, 10), two)
    session.commit_and_wait()
    assert session.ticket.label == "stage2"
    assert (values(one), values(two)) == ([11, 22, 33, 44], [107, 208, 309, 410])


# Barriers, labels, counters


def test_barriers_without_a_pass_and_in_a_capture_are_not_counted(device: MlxDevice) -> None:
    with counters.scope() as counted, device.command_encoder() as enc:
        enc.memory_barrier()
        enc.start_capture()
        for _ in range(3):
            enc.memory_barrier()
        assert len(enc.take_capture() or ()) == 3 and counted.barriers == 0
        add(enc, floats(device, 1), floats(device, 2), device.empty(1))
        for _ in range(3):
            enc.memory_barrier()
    assert (counted.barriers, counted.barrier_ns) == (3, 0)


def test_labels_reach_the_command_buffer(device: MlxDevice) -> None:
    for wait in (True, False):
        enc, out = device.command_encoder(), device.empty(4)
        mtl = enc.metal_command_buffer()
        add(enc, floats(device, 1, 2, 3, 4), floats(device, 5, 6, 7, 8), out)
        if wait:
            enc.commit_and_wait(label="phase.label")
        else:
            enc.commit(label="phase.label").wait()
        assert str(mtl.label()) == "phase.label" and values(out) == [6, 8, 10, 12]


@pytest.mark.parametrize("gate", [True, False])
def test_auto_barrier_gate(device: MlxDevice, gate: bool) -> None:
    a, b, out = floats(device, *[1] * 64), floats(device, *[2] * 64), device.empty(64)
    with counters.scope() as counted, device.command_encoder(auto_barrier=gate) as enc:
        add(enc, a, b, out)
    assert (counted.auto_barriers, counted.auto_concurrent) == (0, int(gate)) and values(out) == [3] * 64


def test_mem_ranges_in_public(device: MlxDevice) -> None:
    ranges, a, b = MemRanges(), device.empty(4), device.empty(4)
    assert ranges.is_empty() and ranges.check_dispatch([b], [a])
    ranges.add_dispatch([b], [a])
    assert ranges.len() == 2
    assert not ranges.check_dispatch([a], []) and ranges.barriers_forced() == 1
    ranges.reset()
    assert ranges.check_dispatch([a], []) and ranges.barriers_forced() == 1


@pytest.mark.parametrize("unretained", [False, True])
def test_unretained_references(device: MlxDevice, unretained: bool) -> None:
    with device.command_encoder(unretained_refs=unretained) as enc:
        add(enc, floats(device, 1, 2), floats(device, 3, 4), out := device.empty(2))
    assert values(out) == [4, 6]


# The library's own units


def test_device_buffer_and_registry_units(device: MlxDevice) -> None:
    assert device.name
    device.command_encoder().commit_and_wait()
    buffer = device.alloc_buffer(16, DType.F32, (2, 2))
    assert (buffer.dtype, buffer.shape, buffer.nbytes, buffer.size) == (DType.F32, (2, 2), 16, 4)
    buffer.numpy().flat[:] = np.arange(4) * 1.5
    assert values(buffer.reshape(4)) == [0, 1.5, 3, 4.5]
    assert all(word in repr(buffer) for word in ("MlxBuffer", "f32", "2, 2"))
    with pytest.raises(InvalidArgument):
        device.alloc_buffer(0, DType.F32, (0,))
    with pytest.raises(KernelNotFound, match="no_such_kernel"):
        device.kernels.get_pipeline("no_such_kernel")
    assert device.kernels.get_pipeline("scalar_mul_f32") is device.kernels.get_pipeline("scalar_mul_f32")


def test_pool_units(device: MlxDevice) -> None:
    pool = device.buffer_pool()
    first = pool.alloc(100, "u8", 100)
    address = first.allocation.address + first.offset
    pool.release(first)
    again = pool.alloc(120, "u8", 120)
    assert again.allocation.address + again.offset == address
    other = pool.alloc(200, "u8", 200)
    pool.release(again)
    pool.release(other)
    assert (pool.free_count, pool.free_bytes, pool.in_use_count) == (2, 128 + 256, 0)
