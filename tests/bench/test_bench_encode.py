"""The bench of encoding: the trace is what it says, messages are counted, and the targets that are counts are met."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mlx_native_py import MlxDevice
from mlx_native_py.bench import encode, peers, trace
from mlx_native_py.bench.decode_step import DecodeStep
from mlx_native_py.bench.null import free_device
from mlx_native_py.cli import main as cli


@pytest.fixture(scope="module")
def rows() -> dict[str, encode.EncodeRow]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "rounds", lambda: {encode.OPENCL: lambda: 1e-3})
        return {row.name: row for row in encode.measure(1, lengths=(50, trace.DISPATCHES))}


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
def test_messages_meet_their_targets(rows: dict[str, encode.EncodeRow]) -> None:
    for name in ("dispatch", "replay"):
        messages = rows[name].messages
        assert messages is not None and messages <= 6 * rows[name].dispatches == 6 * trace.DISPATCHES
    messages = rows["indirect replay"].messages
    assert messages is not None and messages <= 10


@pytest.mark.soft
def test_ways_take_turns_and_are_held_to_limits(rows: dict[str, encode.EncodeRow]) -> None:
    assert {"replay of 50", "replay of 50: messages alone", "dispatch, software device", encode.PROFILED} <= set(rows)
    assert rows[encode.OPENCL].us == pytest.approx(1000) and rows[encode.OPENCL].ratio == 1.0
    assert rows["dispatch"].passed and rows["ops of a decode step"].passed
    assert all(row.us > 0 for row in rows.values())


@pytest.mark.parametrize(
    ("name", "us", "ratio", "messages", "kept"),
    [
        ("dispatch", {}, 1.0, 6420, True),
        ("dispatch", {}, 1.01, 6420, False),
        ("dispatch", {}, 1.0, 6421, False),
        ("ops of a decode step", {}, 2.51, 9999, False),
        ("replay", {"replay": 0.36, "replay: messages alone": 0.31}, 0.2, 6000, True),
        ("replay", {"replay": 0.38, "replay: messages alone": 0.31}, 0.2, 6000, False),
        ("indirect replay", {}, 0.1, 11, False),
        (encode.PROFILED, {"dispatch": 2.0, encode.PROFILED: 2.03}, 1.0, None, True),
        (encode.PROFILED, {"dispatch": 2.0, encode.PROFILED: 2.05}, 1.0, None, False),
        ("three no-op calls", {}, 0.1, None, None),
    ],
)
def test_limits(name: str, us: dict[str, float], ratio: float, messages: int | None, kept: bool | None) -> None:
    assert encode._bar(name, us, us, ratio, messages, 1070)[1] is kept


@pytest.mark.soft
def test_table_and_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    row = encode.EncodeRow(
        name="dispatch", us=2.0, ratio=1.5, messages=100, dispatches=50, bar="at most 1.0", passed=False
    )
    monkeypatch.setattr(encode, "measure", lambda rounds: [row])
    assert cli.main(["bench", "encode", "--rounds", "3"]) == 0
    printed = capsys.readouterr().out
    assert (
        "says nothing about Apple hardware" in printed and "medians of 3 rounds" in printed and "at most" not in printed
    )
    assert cli.main(["bench", "encode", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["ratio"] == 1.5
    assert cli.main(["bench", "encode", "--strict"]) == 1


def _advance(step: DecodeStep) -> int:
    """Moves to the next position, and gives the token that the last step chose."""
    for buffer in (step.position, step.length):
        buffer.fill(int(buffer.numpy()[0]) + 1)
    return int(step.token.numpy()[0])


@pytest.mark.soft
def test_a_decode_step_replays_as_it_runs() -> None:
    with MlxDevice("soft") as device:
        step = DecodeStep(device, layers=2)
        expected = []
        for _ in range(4):
            with device.command_encoder() as enc:
                step.encode(enc)
            expected.append(_advance(step))
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
                tokens.append(_advance(step))
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
    assert peers.rounds() == {}
    assert capsys.readouterr().err.count("not measured: ImportError") == 4
