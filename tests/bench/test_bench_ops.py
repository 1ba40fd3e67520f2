"""The bench of ops: its works are ops, right before they are timed, and the table says what it is."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxDevice, ops, settings
from mlx_native_py.bench import harness
from mlx_native_py.bench import ops as bench
from mlx_native_py.bench.harness import options, report
from mlx_native_py.bench.ops_works import WORKS, OpWork
from mlx_native_py.cli import main as cli

pytestmark = pytest.mark.soft
SMALL = OpWork(
    "small", "add", lambda: [np.ones(64, np.float32)] * 2, np.add, lambda mx, a, b: a + b, flops=64, bar=True
)


@pytest.fixture(scope="module")
def device() -> Any:
    with MlxDevice("soft") as opened:
        yield opened


def test_works_are_ops_and_have_names_of_their_own() -> None:
    assert len({work.name for work in WORKS}) == len(WORKS)
    assert {work.op for work in WORKS} <= ops.table().keys()
    assert sum(work.bar for work in WORKS) == 5


def test_one_work(device: MlxDevice, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_SHORT_MS", math.inf)
    row = bench._measure(SMALL, device, bench._peers(), rounds=2)
    assert row.ms >= row.gpu_ms > 0 and row.numpy_ms and row.gflop_per_s
    assert row.each_ms and row.each_numpy_ms
    assert row.passed is None or row.passed == (row.ms < (row.mlx_ms or 0))
    rows = [row, replace(row, mlx_ms=None, passed=False)]
    title = f"measured on {device.name}"
    assert report(options("ops", None).parse_args(["--bars"]), title, rows, bench._columns()) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(f"measured on {device.name}") and told[3].endswith("NOT MET")


def test_nothing_is_timed_before_the_device_has_its_final_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[bool] = []
    with settings.override(soft_cache_dir=tmp_path), MlxDevice("soft") as fresh:
        [add] = bench.run_work(SMALL, fresh, bench.inputs_on(fresh, SMALL.arrays()), {})[1].dispatches
        begin = bench._milliseconds

        def milliseconds(*arguments: Any) -> dict[str, float]:
            timed.append(add.pipeline.mtl.soft_settled())
            return begin(*arguments)

        monkeypatch.setattr(bench, "_milliseconds", milliseconds)
        bench._measure(SMALL, fresh, {}, rounds=1)
    assert timed and all(timed)


def test_a_peer_gets_arrays_of_its_own_and_a_column(device: MlxDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_SHORT_MS", math.inf)
    given: list[Any] = []
    torch = ModuleType("torch")
    vars(torch)["from_numpy"] = lambda array: ("tensor", array)
    monkeypatch.setitem(sys.modules, "torch", torch)
    work = replace(SMALL, torch=lambda module, a, b: given.append((module, a[0], b[0])))
    row = bench._measure(work, device, bench._peers(), rounds=2)
    assert given == [(torch, "tensor", "tensor")] * (3 + 3 * bench.AT_ONCE)
    assert (
        row.torch_ms is not None and row.each_torch_ms is not None and str(bench._columns()["torch"](row)).endswith("x")
    )


def test_nothing_is_timed_while_the_process_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([0.0, 0.01, 0.01, 0.02, 0.02, 0.0201, 9.9])
    slept: list[float] = []
    clock = SimpleNamespace(process_time=lambda: next(used), sleep=slept.append)
    monkeypatch.setattr(harness, "time", clock)
    harness.settle()
    assert len(slept) == 3 and next(used) == 9.9


def test_a_wrong_result_has_no_speed(device: MlxDevice) -> None:
    with pytest.raises(SystemExit, match="small: wrong result"):
        bench._measure(replace(SMALL, numpy=np.subtract), device, {}, rounds=1)


def test_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "WORKS", [SMALL])
    assert cli.main(["bench", "ops", "--json", "--rounds", "1", "--only", "add"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["how"] == "measured" and [row["work"] for row in told["rows"]] == ["small"]


@pytest.mark.full
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_every_work_is_right(device: MlxDevice, work: OpWork) -> None:
    assert bench._measure(replace(work, timed=False), device, {}, rounds=1).ms > 0


def test_alternatives_take_turns_of_a_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "settle", lambda: calls.append("|"))
    calls: list[str] = []
    medians = harness.medians_in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=7)
    assert "".join(calls) == "|aaaaaa|bbbbbb|aaa|bbb"  # the first call of each turn is not counted
    assert set(medians) == {"a", "b"} and all(each >= 0 for each in medians.values())
