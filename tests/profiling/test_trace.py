"""Traces: the format, what is in them, several ranks in one, and a real reader."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import browser
import pytest

from mlx_native_py import MlxDevice, merge_traces, profile
from mlx_native_py.errors import InvalidArgument
from mlx_native_py.profiling import observer
from mlx_native_py.profiling.profile import Profile
from mlx_native_py.profiling.trace import Trace

from .conftest import LAYERS, Work
from .trace_format import faults


@pytest.fixture
def profiled(device: MlxDevice, work: Work) -> Profile:
    if not device.capabilities.timestamp_counters:
        pytest.skip(f"{device.capabilities.name} has no timestamp counters")
    with profile("dispatch") as p:
        work()
        work()
    return p


def spans(trace: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """By the name of their track."""
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    result: dict[str, list[dict[str, Any]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            result.setdefault(names[event["tid"]].partition(",")[0], []).append(event)
    return result


def test_a_trace_keeps_the_format_and_has_everything(profiled: Profile, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    profiled.trace(path)
    trace = json.loads(path.read_text())
    assert list(faults(trace)) == []
    tracks = spans(trace)
    assert [e["name"] for e in tracks["CPU thread 1"]] == ["encode step", "commit"] * 2
    assert [e["name"] for e in tracks["GPU command buffers"]] == ["step"] * 2
    assert len(tracks["GPU dispatches"]) == 2 * LAYERS * 3
    assert Counter(e["name"] for e in tracks["regions"])["attention"] == 2 * LAYERS
    arrows = Counter(e["name"] for e in trace["traceEvents"] if e["ph"] == "s")
    assert arrows == {"submit": 2, "barrier RAW": 2 * LAYERS * 2}
    reasons = [e["args"]["reason"] for e in trace["traceEvents"] if e["name"] == "barrier RAW"]
    assert all(reason.startswith("RAW on bytes 0..") for reason in reasons)
    counters = {e["name"]: e["args"] for e in trace["traceEvents"] if e["ph"] == "C"}
    assert counters["dispatches"] == {"committed": 2 * LAYERS * 3}
    assert counters["device memory"]["bytes"] > 0


def test_without_times_of_dispatches_command_buffers_name_them(work: Work) -> None:
    with profile("cb") as p:
        work()
    trace = p.trace().as_dict()
    assert list(faults(trace)) == []
    tracks = spans(trace)
    assert "GPU dispatches" not in tracks
    (record,) = tracks["GPU command buffers"]
    assert "rms_norm" in record["args"]["kernels"] and len(record["args"]["barriers"]) == 2 * LAYERS


def test_what_overlaps_goes_on_lines_of_its_own() -> None:
    trace = Trace()
    for start, end in ((0, 10), (2, 5), (4, 12), (5, 9), (11, 20)):
        trace.span("track", "x", start * 1000, end * 1000)
    result = trace.as_dict()
    assert list(faults(result)) == []
    assert {e["args"]["name"] for e in result["traceEvents"] if e["name"] == "thread_name"} == {"track", "track (2)"}


def test_spans_of_others_are_in_files_and_traces(tmp_path: Path, work: Work) -> None:
    with profile() as p:
        begin = time.monotonic_ns()
        observer.add_span("MPI", "all_reduce", begin, begin + 1000, bytes=64)
        work()
    observer.add_span("MPI", "too late", 0, 1)
    p.save(tmp_path / "p.json")
    (span,) = spans(Profile.trace(p).as_dict())["MPI"]
    assert (span["name"], span["dur"], span["args"]) == ("all_reduce", 1.0, {"bytes": 64})


@pytest.mark.parametrize("hosts", [("a", "a"), ("a", "b")])
def test_ranks_are_merged_on_one_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, str]) -> None:
    """Machines have clocks of their own, which began at some time or other; their wall clocks agree."""
    paths = []
    for rank, host in enumerate(hosts):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        began = 1_000_000 if hosts[0] == hosts[1] else rank * 77_000_000
        trace = Trace(origin_ns=began + rank * 5000, wall_ns=10**18 + rank * 5000, rank=rank, process=f"rank {rank}")
        trace.span("MPI", "all_reduce", began + 9000, began + 10_000)
        paths.append(tmp_path / f"{rank}.json")
        trace.write(paths[-1])
    merge_traces(paths, tmp_path / "all.json")
    merged = json.loads((tmp_path / "all.json").read_text())
    assert list(faults(merged)) == []
    result = {e["pid"]: e["ts"] for e in merged["traceEvents"] if e["ph"] == "X"}
    assert result == {1: 9.0, 2: 9.0}


def test_what_is_no_trace_is_not_merged(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"traceEvents": []}')
    with pytest.raises(InvalidArgument, match="x.json is not a trace written by p.trace"):
        merge_traces([tmp_path / "x.json"], tmp_path / "all.json")
    with pytest.raises(InvalidArgument, match="no files"):
        merge_traces([], tmp_path / "all.json")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"dur": -1}, "negative length"),
        ({"tid": 99}, "has no name"),
        ({"ts": "soon"}, "ts of"),
        ({"ph": "Z"}, "unknown phase"),
        ({"ts": 4.0, "dur": 100.0}, "half inside"),
    ],
)
def test_the_validator_bites(change: dict[str, Any], complaint: str) -> None:
    trace = Trace()
    trace.span("track", "outer", 0, 10_000)
    trace.span("track", "inner", 2000, 3000)
    result = trace.as_dict()
    next(event for event in result["traceEvents"] if event["name"] == "inner").update(change)
    outcome = list(faults(result))
    assert any(complaint in fault for fault in outcome), outcome


@pytest.mark.speedscope
def test_speedscope_reads_it(profiled: Profile, tmp_path: Path) -> None:
    text = base64.b64encode(json.dumps(profiled.trace().as_dict()).encode()).decode()
    script = tmp_path / "load.js"
    script.write_text(f"speedscope.loadFileFromBase64('trace.json', '{text}')")
    with browser.opened(f"file://{browser.speedscope_page()}#localProfilePath={script}") as (page, faults):
        page.get_by_text("CPU thread 1").first.wait_for()
        assert page.title() == "trace.json - speedscope"
        assert "(1/4)" in page.inner_text("body"), "encode, command buffers, regions, dispatches"
        assert not faults
