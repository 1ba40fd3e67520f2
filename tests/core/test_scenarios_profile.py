"""Scenarios of the seeds' profiler: times by command buffer and by dispatch, on devices of each ability."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from core.encoder_kit import DISPATCH, STAGE, sampling, soft_device
from core.programs import numbers, pipelines
from mlx_native_py import MlxDevice, settings
from mlx_native_py.encoder import CapturedOpKind
from mlx_native_py.profiling import kernel_profile
from mlx_native_py.profiling.kernel_profile import DispatchEntry

ABILITIES = {
    "stage": sampling(STAGE),
    "dispatch": sampling(STAGE, DISPATCH),
    "neither": sampling(),
    "no counters": sampling(STAGE, DISPATCH, counter_sets=False),
}
TIMED = ("stage", "dispatch")
pytestmark = pytest.mark.soft


@pytest.fixture(autouse=True)
def profiling() -> Iterator[None]:
    kernel_profile.reset()
    with settings.override(profile_cb=True, profile_dispatch=True):
        yield
    kernel_profile.reset()


@pytest.fixture(params=ABILITIES)
def answers(request: pytest.FixtureRequest) -> Iterator[tuple[str, MlxDevice]]:
    """Devices with each answer of `supportsCounterSampling`."""
    with soft_device(ABILITIES[request.param]) as device:
        yield request.param, device


def increment(device: MlxDevice, times: int, label: str, kind: CapturedOpKind | None = None) -> Any:
    """Adds (1, 1, ...) so many times, with a barrier by hand between."""
    twist, x = pipelines(device, "twist"), numbers(device, *range(256))
    enc = device.command_encoder()
    for step in range(times):
        if step:
            enc.memory_barrier()
        if kind is not None:
            enc.set_op_kind(kind)
        enc.dispatch(twist, x, threadgroups=8, group=32)
    enc.commit_and_wait(label=label)
    return enc


def dispatches(label: str) -> list[DispatchEntry]:
    return dict(kernel_profile.dump_dispatches()).get(label, [])


def test_two_dispatches_of_one_command_buffer(answers: tuple[str, MlxDevice]) -> None:
    answer, device = answers
    increment(device, 2, "scenario")
    [(label, figures)] = kernel_profile.dump()
    assert (label, figures.count, figures.provenance) == ("scenario", 1, kernel_profile.SIMULATED)
    [whole] = kernel_profile.dump_command_buffers()
    assert (whole.label, whole.dispatches, whole.gpu_ns) == ("scenario", 2, figures.total_ns)
    if answer not in TIMED:
        assert kernel_profile.dump_dispatches() == []
        assert whole.dispatch_timing is not None and whole.dispatch_timing.how == "unsupported"
        assert whole.dispatch_timing.reason
        return
    found = dispatches("scenario")
    assert [entry.dispatch_index for entry in found] == [0, 1]
    assert all(entry.end_gpu_ns >= entry.start_gpu_ns > 0 for entry in found)
    assert all(entry.gpu_ns == entry.end_gpu_ns - entry.start_gpu_ns for entry in found)
    assert {entry.op_kind for entry in found} == {"Other"} and {entry.kernel for entry in found} == {"twist"}
    assert found[0].end_gpu_ns <= found[1].start_gpu_ns
    assert figures.total_ns + 1_000_000 >= sum(entry.gpu_ns for entry in found)
    assert {str(entry.provenance) for entry in found} == {"simulated"}


def test_dispatches_are_grouped_by_the_label_of_their_command_buffer(answers: tuple[str, MlxDevice]) -> None:
    answer, device = answers
    for label in ("alpha", "beta"):
        increment(device, 1, label)
    groups = kernel_profile.dump_dispatches()
    if answer not in TIMED:
        assert groups == []
    else:
        assert [label for label, _ in groups] == ["alpha", "beta"]
        assert all(len(entries) == 1 and entries[0].dispatch_index == 0 for _, entries in groups)
    assert {label for label, _ in kernel_profile.dump()} == {"alpha", "beta"}


def test_equal_labels_are_told_apart_by_their_sequence(answers: tuple[str, MlxDevice]) -> None:
    answer, device = answers
    for _ in range(2):
        increment(device, 1, "same")
    first, second = kernel_profile.dump_command_buffers()
    assert first.sequence < second.sequence
    wanted = [first.sequence, second.sequence] if answer in TIMED else []
    assert [entry.sequence for entry in dispatches("same")] == wanted


@pytest.mark.parametrize("ability", TIMED)
def test_the_kind_reaches_the_entry(ability: str) -> None:
    with soft_device(ABILITIES[ability]) as device:
        increment(device, 1, "kinds", CapturedOpKind.Sdpa)
        assert [entry.op_kind for entry in dispatches("kinds")] == ["Sdpa"]


def test_what_the_device_can_do_is_said(answers: tuple[str, MlxDevice]) -> None:
    answer, device = answers
    info = device.info()
    assert info["stage_boundary_sampling"] == (answer != "neither")
    assert info["dispatch_boundary_sampling"] == (answer in ("dispatch", "no counters"))
    assert info["timestamp_counters"] == (answer != "no counters")


@pytest.mark.parametrize("ability", TIMED)
def test_more_dispatches_than_one_sample_buffer_holds(ability: str) -> None:
    with soft_device(ABILITIES[ability]) as device:
        fill, x = pipelines(device, "fill"), numbers(device, 0)
        enc = device.command_encoder()
        for step in range(2100):
            enc.dispatch(fill, x, step, threads=1, group=1)
        enc.commit_and_wait(label="many")
        found = dispatches("many")
        assert [entry.dispatch_index for entry in found] == list(range(2100))
        assert all(entry.start_gpu_ns > 0 for entry in found)
        assert x.numpy()[0] == 2099


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
    found = {entry.label: entry for entry in kernel_profile.dump_command_buffers()}
    assert set(found) == {"stage 0", "stage 1", "asynchronous"}
    assert all(len(dispatches(label)) == (answer in TIMED) for label in found)


def test_profiling_changes_no_meaning(answers: tuple[str, MlxDevice]) -> None:
    """Asynchronous stays asynchronous, and the counters count what the caller did."""
    _, device = answers
    slow, x = pipelines(device, "slow"), numbers(device, 0)
    enc = device.command_encoder()
    enc.dispatch(slow, x, 20_000_000, threads=1, group=1)
    ticket = enc.commit(label="slow")
    assert not ticket.done()
    assert (enc.tally.syncs, enc.tally.barriers, enc.tally.cmd_bufs, enc.tally.dispatches) == (0, 0, 1, 1)
    ticket.wait()


def test_without_the_flags_there_are_no_tables(answers: tuple[str, MlxDevice]) -> None:
    with settings.override(profile_cb=False, profile_dispatch=False):
        assert not kernel_profile.is_enabled() and not kernel_profile.is_dispatch_enabled()
        increment(answers[1], 1, "quiet")
    assert kernel_profile.dump() == [] == kernel_profile.dump_dispatches()


# Plain values


def test_record_dump_reset() -> None:
    kernel_profile.record("A", 100)
    kernel_profile.record("A", 200)
    kernel_profile.record("B", 50)
    (first, a), (second, b) = kernel_profile.dump()
    assert (first, a.count, a.total_ns, a.min_ns, a.max_ns) == ("A", 2, 300, 100, 200)
    assert (second, b.count) == ("B", 1)
    assert (a.percentile(50), a.percentile(100)) == (100, 200)
    kernel_profile.reset()
    assert kernel_profile.dump() == []


def test_dispatch_entries_are_grouped_in_order_of_appearance() -> None:
    for label, index in (("attn", 0), ("ffn", 0), ("attn", 1)):
        kernel_profile.record_dispatch(DispatchEntry(label, "Other", index, 5, 10, 15))
    groups = kernel_profile.dump_dispatches()
    assert [(label, [entry.dispatch_index for entry in found]) for label, found in groups] == [
        ("attn", [0, 1]),
        ("ffn", [0]),
    ]


def test_ties_keep_the_order_of_appearance() -> None:
    for label in ("z", "a", "m"):
        kernel_profile.record(label, 10)
    assert [label for label, _ in kernel_profile.dump()] == ["z", "a", "m"]


def test_the_clock() -> None:
    convert = kernel_profile.convert_gpu_ticks_to_ns
    assert convert(500) == 500
    kernel_profile.record_clock_pair(2000, 0)
    assert convert(500) == 500
    kernel_profile.record_clock_pair(2000, 1000)
    assert (convert(500), convert(0)) == (1000, 0)
    kernel_profile.record_clock_pair(5000, 2000)
    assert (convert(1000), convert(1500), convert(2000)) == (2000, 3500, 5000)
    kernel_profile.reset()
    huge = 1 << 62
    kernel_profile.record_clock_pair(huge, huge)
    kernel_profile.record_clock_pair(huge + 3000, huge + 1000)
    assert convert(huge + 1) == huge + 3, "exact where a float would round"
