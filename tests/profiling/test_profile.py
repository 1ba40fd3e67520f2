"""Times: of command buffers that are waited for or not, of dispatches on devices of each ability, with provenance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kit.encoding import DISPATCH, STAGE, floats, names, pipeline, record, sampling, soft_device
from kit.programs import numbers, pipelines

from mlx_native_py import MlxDevice, counters, settings
from mlx_native_py.encoder import CapturedOpKind
from mlx_native_py.profiling import kernel_profile
from mlx_native_py.profiling.kernel_profile import (
    MEASURED,
    SIMULATED,
    DispatchEntry,
    ProfileEntry,
    convert_gpu_ticks_to_ns,
    record_clock_pair,
    record_dispatch,
    unsupported,
)


@pytest.fixture(autouse=True)
def empty_tables() -> Iterator[None]:
    kernel_profile.reset()
    yield
    kernel_profile.reset()


# The tables


def test_record_dump_reset() -> None:
    for label, ns in (("A", 100), ("A", 200), ("B", 50)):
        kernel_profile.record(label, ns)
    (first, a), (second, b) = kernel_profile.dump()
    assert (first, a.count, a.total_ns, a.min_ns, a.max_ns) == ("A", 2, 300, 100, 200)
    assert (second, b.count, a.provenance) == ("B", 1, MEASURED)
    kernel_profile.reset()
    assert kernel_profile.dump() == [] and kernel_profile.dump_dispatches() == []


def test_equal_totals_keep_the_order_of_appearance() -> None:
    for label in ("z", "a", "m"):
        kernel_profile.record(label, 10)
    assert [label for label, _ in kernel_profile.dump()] == ["z", "a", "m"]


def test_percentiles() -> None:
    entry = ProfileEntry(times=tuple(range(100, 0, -1)))
    assert [entry.percentile(p) for p in (0, 1, 50, 90, 99, 100)] == [1, 1, 50, 90, 99, 100]
    assert ProfileEntry().percentile(50) == 0


def test_dispatches_are_grouped_by_label() -> None:
    for label, index in (("attn", 0), ("ffn", 0), ("attn", 1)):
        record_dispatch(DispatchEntry(label, "Other", index, 10, 0, 10))
    groups = kernel_profile.dump_dispatches()
    assert [(label, [e.dispatch_index for e in entries]) for label, entries in groups] == [
        ("attn", [0, 1]),
        ("ffn", [0]),
    ]


def test_the_clock() -> None:
    assert convert_gpu_ticks_to_ns(12345) == 12345
    record_clock_pair(0, 5)
    record_clock_pair(5, 0)
    assert convert_gpu_ticks_to_ns(12345) == 12345
    record_clock_pair(2000, 1000)
    assert (convert_gpu_ticks_to_ns(500), convert_gpu_ticks_to_ns(0)) == (1000, 0)
    record_clock_pair(5000, 2000)
    assert [convert_gpu_ticks_to_ns(ticks) for ticks in (1000, 1500, 2000)] == [2000, 3500, 5000]
    kernel_profile.reset()
    # Other epochs, and numbers beyond what a float holds exactly.
    cpu, gpu = 1 << 60, 7
    record_clock_pair(cpu, gpu)
    record_clock_pair(cpu + 3_000_000, gpu + 1_000_000)
    record_clock_pair(cpu + 30_000_003, gpu + 10_000_001)
    assert convert_gpu_ticks_to_ns(gpu + 5) == cpu + 15
    assert convert_gpu_ticks_to_ns(gpu + 10_000_001) == cpu + 30_000_003


def test_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not kernel_profile.is_enabled() and not kernel_profile.is_dispatch_enabled()
    monkeypatch.setenv("MLX_PROFILE_CB", "1")
    monkeypatch.setenv("MLX_PROFILE_DISPATCH", "1")
    assert kernel_profile.is_enabled() and kernel_profile.is_dispatch_enabled()


# Command buffers


def work(device: MlxDevice, label: str, count: int = 1) -> Any:
    enc = device.command_encoder()
    y = floats(device, *[0] * 4)
    for _ in range(count):
        enc.dispatch(pipeline(device, "fill"), y, 1.0, threads=4)
    return enc.commit(label)


def test_without_the_flag_nothing_is_recorded(device: MlxDevice) -> None:
    work(device, "quiet").wait()
    assert kernel_profile.dump() == [] == kernel_profile.dump_dispatches()


def test_command_buffers_nobody_waits_for_are_recorded(device: MlxDevice) -> None:
    with settings.override(profile_cb=True), counters.scope() as c:
        tickets = [work(device, "busy", 2) for _ in range(3)]
        assert c.syncs == 0, "profiling does not make a commit wait"
        last = work(device, "last")
    last.wait()
    figures = dict(kernel_profile.dump())
    assert (figures["busy"].count, figures["last"].count) == (3, 1)
    assert figures["busy"].total_ns == sum(int(t.gpu_time * 1e9) for t in tickets)
    entries = kernel_profile.dump_command_buffers()
    assert [(e.label, e.dispatches) for e in entries] == [("busy", 2)] * 3 + [("last", 1)]
    assert len({e.sequence for e in entries}) == 4
    assert all(e.dispatch_timing is None for e in entries)


@pytest.mark.soft
def test_software_times_say_so() -> None:
    with soft_device() as device, settings.override(profile_cb=True):
        work(device, "soft").wait()
    assert kernel_profile.dump()[0][1].provenance == SIMULATED


@pytest.mark.soft
def test_the_tables_look_for_finished_work_themselves() -> None:
    with soft_device() as device, settings.override(profile_cb=True):
        ticket = work(device, "alone")
        while ticket.mtl.status() < 4:
            pass
        assert [label for label, _ in kernel_profile.dump()] == ["alone"]


# Dispatches


ABILITIES = {
    "stage": sampling(STAGE),
    "dispatch": sampling(STAGE, DISPATCH),
    "neither": sampling(),
    "dispatch alone": sampling(DISPATCH),
    "no counters": sampling(STAGE, DISPATCH, counter_sets=False),
}
TIMED = ("stage", "dispatch", "dispatch alone")


@pytest.fixture(params=ABILITIES)
def answers(request: pytest.FixtureRequest) -> Iterator[tuple[str, MlxDevice]]:
    """Devices with each answer of `supportsCounterSampling`, and both profiles asked for."""
    with soft_device(ABILITIES[request.param]) as device, settings.override(profile_cb=True, profile_dispatch=True):
        yield request.param, device


def dispatches(label: str) -> list[DispatchEntry]:
    return dict(kernel_profile.dump_dispatches()).get(label, [])


@pytest.mark.soft
@pytest.mark.parametrize("ability", TIMED)
@pytest.mark.parametrize("auto_barrier", [True, False])
def test_each_dispatch_is_timed(ability: str, auto_barrier: bool) -> None:
    with soft_device(ABILITIES[ability]) as device:
        with settings.override(profile_dispatch=True, profile_cb=True, auto_barrier=auto_barrier):
            x, y, axpy = floats(device, *[1] * 256), floats(device, *[0] * 256), pipeline(device, "axpy")
            enc = device.command_encoder()
            enc.dispatch(axpy, x, y, 1.0, threads=256)
            enc.memory_barrier()
            enc.set_op_kind(CapturedOpKind.Sdpa)
            enc.dispatch(axpy, x, y, 1.0, threads=256)
            enc.commit_and_wait("test.profile.cb")
        ((label, entries),) = kernel_profile.dump_dispatches()
        assert label == "test.profile.cb"
        assert [(e.dispatch_index, e.kernel, e.op_kind) for e in entries] == [(0, "axpy", "Other"), (1, "axpy", "Sdpa")]
        assert all(e.end_gpu_ns >= e.start_gpu_ns > 0 and e.gpu_ns == e.end_gpu_ns - e.start_gpu_ns for e in entries)
        assert entries[0].end_gpu_ns <= entries[1].start_gpu_ns
        assert all(e.provenance == SIMULATED for e in entries)
        figures = dict(kernel_profile.dump())["test.profile.cb"]
        assert (figures.count, figures.provenance) == (1, SIMULATED)
        total = figures.total_ns
        assert total + 1_000_000 >= sum(e.gpu_ns for e in entries)
        start, end = (int(t * 1e9) for t in enc.ticket.gpu_interval)
        assert start - 1_000_000 <= entries[0].start_gpu_ns and entries[1].end_gpu_ns <= end + 1_000_000
        assert y.numpy().tolist() == [2.0] * 256
        [whole] = kernel_profile.dump_command_buffers()
        assert (whole.label, whole.dispatches, whole.gpu_ns) == (label, 2, total)
        assert whole.dispatch_timing == SIMULATED


@pytest.mark.soft
@pytest.mark.parametrize("ability", ["neither", "no counters"])
def test_a_device_that_cannot_sample_says_why(ability: str) -> None:
    with soft_device(ABILITIES[ability]) as device, settings.override(profile_dispatch=True, profile_cb=True):
        work(device, "cb").wait()
        assert kernel_profile.dump_dispatches() == []
        (entry,) = kernel_profile.dump_command_buffers()
        assert entry.label == "cb" and entry.provenance == SIMULATED
        reason = "samples neither" if ability == "neither" else "no timestamp counters"
        assert entry.dispatch_timing is not None and entry.dispatch_timing.how == "unsupported"
        assert reason in entry.dispatch_timing.reason


@pytest.mark.soft
@pytest.mark.parametrize("ability", list(ABILITIES))
def test_profiling_changes_neither_results_nor_counters(ability: str) -> None:
    def run(**flags: bool) -> tuple[list[float], counters.Tally]:
        with soft_device(ABILITIES[ability]) as device, settings.override(**flags):
            x, y, axpy = floats(device, 1, 2), floats(device, 0, 0), pipeline(device, "axpy")
            enc = device.command_encoder()
            for step in range(4):
                enc.dispatch(axpy, *((x, y) if step % 2 else (y, x)), 1.0, threads=2)
                enc.dispatch(axpy, None, None, None, threads=2)
            enc.memory_barrier()
            enc.commit().wait()
            return y.numpy().tolist(), enc.tally

    assert run(profile_dispatch=True, profile_cb=True) == run()


@pytest.mark.soft
def test_the_messages_of_a_pass_per_dispatch() -> None:
    with soft_device(ABILITIES["stage"]) as device, settings.override(profile_dispatch=True):
        log = record(device)
        y, fill = floats(device, 0, 0), pipeline(device, "fill")
        enc = device.command_encoder()
        enc.dispatch(fill, y[:1], 1.0, threads=1)
        enc.dispatch(fill, y[1:], 1.0, threads=1)
        enc.commit().wait()
        one = ["computeCommandEncoderWithDescriptor_", "setComputePipelineState_", "setBuffer_offset_atIndex_"]
        two = ["setBytes_length_atIndex_", "dispatchThreads_threadsPerThreadgroup_", "updateFence_", "endEncoding"]
        assert names(log)[1:16] == [*one, *two, one[0], "waitForFence_", *one[1:], *two]


@pytest.mark.soft
def test_the_messages_of_samples_inside_a_pass() -> None:
    with soft_device(ABILITIES["dispatch"]) as device, settings.override(profile_dispatch=True):
        log = record(device)
        y, fill = floats(device, 0, 0), pipeline(device, "fill")
        enc = device.command_encoder()
        enc.dispatch(fill, y[:1], 1.0, threads=1)
        enc.dispatch(fill, y[:1], 1.0, threads=1)
        enc.commit().wait()
        samples = [args[1:] for name, args in log if name.startswith("sampleCounters")]
        assert samples == [(0, True), (1, True), (2, True), (3, True)]
        assert names(log).count("computeCommandEncoderWithDispatchType_") == 1


@pytest.mark.soft
@pytest.mark.parametrize("ability", ["stage", "dispatch"])
def test_more_dispatches_than_a_sample_buffer_holds(ability: str) -> None:
    with soft_device(ABILITIES[ability]) as device, settings.override(profile_dispatch=True):
        work(device, "many", 2500).wait()
        work(device, "again", 3).wait()
        groups = dict(kernel_profile.dump_dispatches())
        assert [e.dispatch_index for e in groups["many"]] == list(range(2500))
        assert all(e.provenance == SIMULATED and e.start_gpu_ns for e in groups["many"])
        assert len(groups["again"]) == 3
        assert len(device.submissions.samples._free) == 2


@pytest.mark.soft
def test_sample_buffers_that_run_out_are_no_silent_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    with soft_device(ABILITIES["stage"]) as device, settings.override(profile_dispatch=True, profile_cb=True):
        monkeypatch.setattr(device.submissions.samples, "take", lambda: (None, "Cannot allocate sample buffer"))
        work(device, "cb").wait()
        (entry,) = kernel_profile.dump_command_buffers()
        assert entry.dispatch_timing == unsupported("Cannot allocate sample buffer")
        assert kernel_profile.dump_dispatches() == []


@pytest.mark.soft
@pytest.mark.parametrize("ability", TIMED)
def test_two_labels_make_two_groups(ability: str) -> None:
    with soft_device(ABILITIES[ability]) as device, settings.override(profile_dispatch=True):
        work(device, "test.cb.alpha").wait()
        work(device, "test.cb.beta").wait()
        groups = kernel_profile.dump_dispatches()
        assert [(label, [e.dispatch_index for e in entries]) for label, entries in groups] == [
            ("test.cb.alpha", [0]),
            ("test.cb.beta", [0]),
        ]
        assert groups[0][1][0].sequence < groups[1][1][0].sequence


@pytest.mark.soft
def test_a_failed_command_buffer_has_no_times() -> None:
    with soft_device(ABILITIES["stage"]) as device, settings.override(profile_dispatch=True, profile_cb=True):
        enc = device.command_encoder()
        enc.dispatch(pipeline(device, "far"), floats(device, 0), threads=1)
        with pytest.raises(RuntimeError):
            enc.commit_and_wait("failed")
        assert kernel_profile.dump() == [] and kernel_profile.dump_dispatches() == []


@pytest.mark.soft
def test_equal_labels_are_told_apart_by_their_sequence(answers: tuple[str, MlxDevice]) -> None:
    answer, device = answers
    for _ in range(2):
        work(device, "same").wait()
    first, second = kernel_profile.dump_command_buffers()
    assert first.sequence < second.sequence
    wanted = [first.sequence, second.sequence] if answer in TIMED else []
    assert [entry.sequence for entry in dispatches("same")] == wanted


@pytest.mark.soft
def test_what_the_device_can_do_is_said(answers: tuple[str, MlxDevice]) -> None:
    answer, device = answers
    info = device.info()
    assert info["stage_boundary_sampling"] == (answer in ("stage", "dispatch", "no counters"))
    assert info["dispatch_boundary_sampling"] == (answer in ("dispatch", "dispatch alone", "no counters"))
    assert info["timestamp_counters"] == (answer != "no counters")


@pytest.mark.soft
def test_work_that_nobody_waits_for_is_in_the_tables(answers: tuple[str, MlxDevice]) -> None:
    answer, device = answers
    twist, x = pipelines(device, "twist"), numbers(device, 1)
    session = device.encoder_session()
    for stage in range(2):
        session.encoder().dispatch(twist, x, threads=1)
        session.fence_stage(f"stage {stage}")
        session.reset_for_next_stage()
    enc = device.command_encoder()
    enc.dispatch(twist, x, threads=1)
    ticket = enc.commit(label="asynchronous")
    while not ticket.done():
        pass
    profile = {entry.label: entry for entry in kernel_profile.dump_command_buffers()}
    assert set(profile) == {"stage 0", "stage 1", "asynchronous"}
    assert all(len(dispatches(label)) == (answer in TIMED) for label in profile)


@pytest.mark.soft
def test_profiling_leaves_a_commit_asynchronous(answers: tuple[str, MlxDevice]) -> None:
    """Asynchronous stays asynchronous, and the counters count what the caller did."""
    _, device = answers
    slow, x = pipelines(device, "slow"), numbers(device, 0)
    enc = device.command_encoder()
    enc.dispatch(slow, x, 20_000_000, threads=1, group=1)
    ticket = enc.commit(label="slow")
    assert not ticket.done()
    assert (enc.tally.syncs, enc.tally.barriers, enc.tally.cmd_bufs, enc.tally.dispatches) == (0, 0, 1, 1)
    ticket.wait()
