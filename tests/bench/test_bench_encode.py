"""The bench of encoding: the trace is what it says, messages are counted, and the targets that are counts are met."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxDevice
from mlx_native_py.bench import encode, peers, trace
from mlx_native_py.bench.decode_step import DecodeStep
from mlx_native_py.bench.null import free_device
from mlx_native_py.cli import main as cli

MOST_MESSAGES = {"eager": 6.0, "replay": 6.0}
MOST_INDIRECT = 10


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "encode_times", lambda: {"MLX lazy build": 1.0, "torch eager": None})
        patch.setattr(encode, "_model", encode._trace(50))
        return encode.measure(1, growth=(100, 300))


@pytest.mark.soft
def test_the_trace_is_that_of_a_decode_token() -> None:
    with MlxDevice("soft") as device:
        calls = trace.calls(device)
        graph = trace.captured(device, calls)
    changes = sum(a.pipeline is not b.pipeline for a, b in zip(calls, calls[1:], strict=False))
    buffers = [len(call.reads) + 1 for call in calls]
    assert (graph.dispatch_count(), graph.barrier_count(), changes) == (1070, 440, 762)
    assert np.mean(buffers) == pytest.approx(3.29, abs=0.001)


@pytest.mark.soft
def test_messages_meet_their_targets(found: dict[str, Any]) -> None:
    assert found["trace"] == {"dispatches": 1070, "barriers": 440}
    for level, most in MOST_MESSAGES.items():
        assert found["levels"][level]["messages_per_dispatch"] <= most, level
    assert all(level["barriers"] == 440 for level in found["levels"].values())
    assert found["levels"]["icb"]["messages_per_token"] <= MOST_INDIRECT
    assert set(found) >= {"trace", "levels", "floor_us", "peers", "growth", "tracker"}


@pytest.mark.soft
def test_the_table_says_what_it_is(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    encode._print(found)
    printed = capsys.readouterr().out
    assert "says nothing about Apple hardware" in printed and "not installed" in printed
    assert "1070 dispatches, 440 barriers" in printed


@pytest.mark.soft
def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(encode, "measure", lambda rounds: {"rounds": rounds})
    assert cli.main(["bench", "encode", "--json", "--rounds", "3"]) == 0
    assert json.loads(capsys.readouterr().out) == {"rounds": 3}


@pytest.mark.soft
def test_a_decode_step_replays_as_it_runs() -> None:
    with MlxDevice("soft") as device:
        step = DecodeStep(device, layers=2)
        expected = []
        for _ in range(4):
            with device.command_encoder() as enc:
                step.encode(enc)
            expected.append(step.advance())
        step.restart()
        with device.capture(token=step.token) as graph:
            graph.keep(logits=step.encode(graph.encoder))
        better = graph.optimise()
        assert better.changes["fused"] > 0 and better.barrier_count() < graph.barrier_count()
        for options in ({"indirect": True}, {"indirect": False}):
            step.restart()
            plan, tokens = better.plan(**options), []
            for _ in range(4):
                plan.run()
                tokens.append(step.advance())
            assert tokens == expected


@pytest.mark.soft
def test_free_messages_run_nothing() -> None:
    with MlxDevice("soft") as device:
        free = free_device(device)
        calls = trace.calls(free, 20)
        before = [call.out.to_bytes() for call in calls]
        with free.command_encoder() as enc:
            trace.encode(enc, calls)
        assert [call.out.to_bytes() for call in calls] == before


def test_peers_that_are_missing_are_said_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> float:
        raise ImportError("no module named x")

    for name in ("_wgpu", "_pyopencl", "_mlx", "_torch"):
        monkeypatch.setattr(peers, name, missing)
    assert set(peers.encode_times().values()) == {None}
    assert capsys.readouterr().err.count("not measured: ImportError") == 4
