"""Profiles of a block: what they count, where they put it, and what they say of their figures."""

from __future__ import annotations

import csv
import gc
import io
import sys
import threading
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import mlx_native_py
from mlx_native_py import MlxDevice, counters, dispatch_count, load_profile, ops, profile, region, softmetal
from mlx_native_py.errors import CommandBufferError, EncoderStateError, InvalidArgument
from mlx_native_py.profiling import observer, peaks
from mlx_native_py.profiling.profile import Profile
from mlx_native_py.softmetal.cache import Store

from .conftest import LAYERS, Work

CLOCKS = 50_000
"""Nanoseconds by which two clocks may be apart that are related through pairs of readings."""
PACKAGE, SOFT = (str(Path(module.__file__ or "").parent) for module in (mlx_native_py, softmetal))
ROW, MATRIX, WEIGHTS = 64 * 4, 8 * 64 * 4, 64 * 64 * 4


@pytest.mark.parametrize("level", ["cb", "dispatch"])
def test_calls_bytes_flops_and_barriers(work: Work, level: str) -> None:
    work()
    with profile(level) as p:  # type: ignore[arg-type]
        work()
        work()
    rows = {row.name: row for row in p.rows("op")}
    assert {name: row.calls for name, row in rows.items()} == dict.fromkeys(("matmul", "rms_norm", "add"), 2 * LAYERS)
    assert rows["matmul"].flops == 2 * LAYERS * 2 * 8 * 64 * 64
    assert rows["matmul"].nbytes == 2 * LAYERS * (2 * MATRIX + WEIGHTS)
    assert rows["rms_norm"].nbytes == 2 * LAYERS * (2 * MATRIX + ROW)
    assert (rows["matmul"].barriers, rows["add"].barriers) == (2 * LAYERS, 2 * LAYERS)
    assert sum(row.share for row in rows.values()) == pytest.approx(1)
    assert all(row.gpu_ns > 0 and row.gbps and row.peak and row.encode_ns > 0 for row in rows.values())
    assert rows["add"].gflops is None and rows["matmul"].gflops


def test_command_buffers_are_measured_and_kernels_apportioned(work: Work) -> None:
    with profile("cb") as p:
        work()
    (record,) = p.records
    (label,) = p.rows("label")
    assert label.name == "step" and "apportioned" not in label.how
    assert all(row.how == f"apportioned ({label.how})" for row in p.rows("kernel"))
    assert sum(each.gpu_ns for each in record.dispatches) == pytest.approx(record.gpu_ns)
    assert record.opened_ns <= record.ended_ns <= record.committed_ns
    assert record.opened_ns <= record.start_ns <= record.end_ns
    assert [nbytes > 0 for _, nbytes in record.memory] == [True] * 3


def test_dispatches_are_measured_one_by_one(device: MlxDevice, work: Work) -> None:
    if not device.capabilities.timestamp_counters:
        pytest.skip(f"{device.capabilities.name} has no timestamp counters")
    with profile("dispatch") as p:
        work()
    (record,) = p.records
    for dispatch in record.dispatches:
        assert record.start_ns - CLOCKS <= dispatch.start_ns <= dispatch.end_ns <= record.end_ns + CLOCKS
        assert dispatch.gpu_ns == dispatch.end_ns - dispatch.start_ns
        assert dispatch.how == record.how


def test_regions_nest(work: Work) -> None:
    with profile("cb") as p, region("step"):
        work()
    rows = p.rows("region")
    assert [(row.name, row.depth) for row in rows][:1] == [("step", 0)]
    calls = {(row.name, row.depth): row.calls for row in rows}
    assert calls == {("step", 0): 9, ("attention", 2): 2} | {(f"layer {n}", 1): 3 for n in range(LAYERS)}
    assert rows[0].share == pytest.approx(1)
    inner = [row for row in rows if row.depth == 1]
    assert sum(row.gpu_ns for row in inner) == pytest.approx(rows[0].gpu_ns)


def test_a_plan_keeps_regions_ops_and_barriers_of_its_capture(device: MlxDevice) -> None:
    x, w = (device.buffer(np.ones((8, 64) if n == 0 else (64, 64), np.float32)) for n in range(2))
    with device.capture() as graph:
        with region("captured"):
            y = ops.matmul(graph.encoder, x, w)
            z = ops.add(graph.encoder, x, y)
        graph.keep(z=z)
    plan = graph.plan()
    for level in ("cb", "dispatch"):
        with profile(level) as p:
            with device.command_encoder() as enc, region("replayed"):
                plan.encode(enc)
        (record,) = p.records
        assert [each.op for each in record.dispatches] == ["matmul", "add"]
        assert {each.region for each in record.dispatches} == {("replayed", "captured")}
        (barrier,) = record.barriers
        assert (barrier.before, barrier.earlier, barrier.hazard) == (1, 0, "RAW")
        assert barrier.nbytes == MATRIX


def test_barriers_say_why(work: Work, device: MlxDevice) -> None:
    with profile() as p:
        work()
        with device.command_encoder() as enc:
            x = device.buffer(np.ones(4, np.float32), label="input")
            ops.add(enc, x, x)
            enc.memory_barrier()
            ops.add(enc, x, x)
    first, by_hand = p.records
    assert {(each.before - each.earlier, each.hazard) for each in first.barriers} == {(1, "RAW")}
    assert [each.reason for each in by_hand.barriers] == ["placed by hand"]


def test_first_calls_are_marked(work: Work) -> None:
    with profile("dispatch") as p:
        work()
        work()
    assert [record.warm_up for record in p.records] == [True, False]
    assert sum(each.warm_up for record in p.records for each in record.dispatches) == 3
    assert "6*" in p.table("op").text() and "*: the first call" in p.table("op").text()


def test_what_is_not_waited_for_is_there(device: MlxDevice) -> None:
    x = device.buffer(np.ones(4, np.float32))
    with profile() as p:
        enc = device.command_encoder()
        ops.add(enc, x, x)
        ticket = enc.commit("asynchronous")
        dropped = device.command_encoder()
        ops.add(dropped, x, x)
        dropped.discard()
    assert [record.label for record in p.records] == ["asynchronous"]
    ticket.wait()


def test_other_threads_are_recorded_and_what_is_outside_is_not(work: Work) -> None:
    work()
    with profile() as p:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    work()
    (record,) = p.records
    assert record.thread != threading.get_ident()
    assert not observer.watchers


def test_profiles_nest(work: Work) -> None:
    with profile("cb") as outer:
        work()
        with profile("dispatch") as inner:
            work()
    assert (len(outer.records), len(inner.records)) == (2, 1)


def test_gaps_are_idle_time(work: Work) -> None:
    with profile() as p:
        work()
        work()
    first, second = p.records
    assert first.gap_ns == 0
    assert second.gap_ns == second.start_ns - first.end_ns > 0


@pytest.mark.soft
def test_failed_work_is_left_out(device: MlxDevice, work: Work) -> None:
    library = device.compile("kernel void stray(device float *x) { *(device float *)(ulong)16 = x[0]; }")
    x = device.buffer(np.ones(4, np.float32))
    with profile() as p, pytest.raises(CommandBufferError):
        library.stray(x, threads=1)
    assert [record.failed for record in p.records] == [True]
    assert p.rows() == [] and "1 command buffers failed" in p.table().text()


def test_an_empty_profile(device: MlxDevice) -> None:
    with profile() as p:
        device.command_encoder().commit_and_wait()
    assert p.rows("kernel") == [] and len(p.rows("label")) == 1
    assert "0 dispatches" in str(p.table())
    assert p.to_csv() == "kernel\n"


def test_files(work: Work, tmp_path: object) -> None:
    with profile("dispatch") as p:
        work()
    path = f"{tmp_path}/profile.json"
    p.save(path)
    again = load_profile(path)
    assert again.records == p.records and again.peaks == p.peaks
    assert again.table("region").text() == p.table("region").text()
    rows = list(csv.DictReader(io.StringIO(p.to_csv())))
    assert [row["op"] for row in rows[:3]] == ["rms_norm", "matmul", "add"]
    assert rows[0]["region"] == "layer 0/attention"
    assert len(p.to_records()) == len(rows) == 9
    assert {row["name"] for row in p.to_records("op")} == {"rms_norm", "matmul", "add"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "mlx_native_py profile 9"}', "[" * 100_000])
def test_what_is_no_profile_is_refused(tmp_path: object, text: str) -> None:
    path = f"{tmp_path}/profile.json"
    with open(path, "w") as file:
        file.write(text)
    with pytest.raises(InvalidArgument, match="not a profile written by p.save"):
        load_profile(path)


def test_wrong_words_are_refused(work: Work) -> None:
    with pytest.raises(InvalidArgument, match="level='kernel'; allowed: cb, dispatch"):
        profile("kernel")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="non-empty str, not ''"):
        region("")
    with profile() as p:
        work()
    with pytest.raises(InvalidArgument, match="sort='time'; allowed: gpu, mean"):
        p.table(sort="time")
    with pytest.raises(InvalidArgument, match="by='layer'; allowed: kernel, op, label, region"):
        p.table("layer")  # type: ignore[arg-type]
    with pytest.raises(EncoderStateError, match="already been used"):
        p.start()


def test_old_command_buffers_go(device: MlxDevice, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlx_native_py.profiling.profile._MAX_DISPATCHES", 100)
    with profile() as p:
        for _ in range(64):
            work()
    assert len(p.records) + p.dropped == 64
    assert sum(len(record.dispatches) for record in p.records) <= 100 + 9, "but for the one that was being opened"
    assert "early command buffers were let go" in p.table().text()


def test_a_region_decorates(device: MlxDevice) -> None:
    x = device.buffer(np.ones(4, np.float32))

    @region("decorated")
    def step(depth: int) -> None:
        with device.command_encoder() as enc:
            ops.add(enc, x, x)
        if depth:
            step(depth - 1)

    with profile() as p:
        step(1)
    assert [each.dispatches[0].region for each in p.records] == [("decorated",), ("decorated", "decorated")]


def test_reprs(work: Work) -> None:
    assert repr(Profile()).startswith("<Profile, level 'cb', not started: 0 command buffers")
    with profile() as p:
        assert "running" in repr(p)
        work()
    assert "ended: 1 command buffer, 9 dispatches, 6 barriers" in repr(p)
    assert p._repr_html_().startswith("<table>")


def python_calls(run: Work) -> int:
    """Calls made by the package, without those that Metal, played or soft, makes of a message."""
    count = 0

    def see(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        code = frame.f_code.co_filename
        count += event in ("call", "c_call") and code.startswith(PACKAGE) and not code.startswith(SOFT)

    gc.collect()
    gc.disable()  # what earlier tests left is not to end in between
    counters._here().fold()  # nor are figures of earlier encoders to be added up
    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_level_cb_does_nothing_for_single_dispatches(device: MlxDevice) -> None:
    """It costs a few calls for a command buffer, of ten dispatches or of a thousand, whatever is allocated."""
    x, out, *_held = (device.buffer(np.ones(64, np.float32)) for _ in range(100))

    def encoding(count: int) -> Work:
        def run() -> None:
            enc = device.command_encoder()
            for _ in range(count):
                ops.add(enc, x, x, out=out)
            enc.discard()

        return run

    encoding(10)()
    more = []
    for count in (10, 1000):
        without = min(python_calls(encoding(count)) for _ in range(3))
        with profile("cb"):
            more.append(min(python_calls(encoding(count)) for _ in range(3)) - without)
    assert more[0] == more[1] <= 20, "a call for each dispatch would be a thousand more"


@pytest.mark.soft
def test_peaks_are_measured_once_for_a_device(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with MlxDevice("soft") as first, MlxDevice("soft") as second:
        result = peaks.kept_peaks(first, store)
        before = dispatch_count()
        assert peaks.kept_peaks(second, store) == result and dispatch_count() == before
    assert result.bandwidth > 0 and result.flops > 0


@pytest.mark.soft
def test_a_profile_read_after_its_device_was_closed_has_peaks() -> None:
    with profile("dispatch") as p, MlxDevice("soft") as device:
        with device.command_encoder() as enc:
            ops.scalar_mul(enc, device.buffer(np.ones(1024, np.float32)), 2.0)
    assert device.is_closed and p.peaks is not None
    assert all(row.peak is not None for row in p.rows())
