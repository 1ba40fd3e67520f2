"""`mlx-native doctor --mac`: a verdict for everything, here and on the Macs that the stand-in plays."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from kit.encoding import soft_device
from ops.table import CASES
from standin import PROFILES, Profile, install

from mlx_native_py import MlxDevice
from mlx_native_py.cli import main as cli
from mlx_native_py.cli import rehearsal
from mlx_native_py.cli.doctor import examine
from mlx_native_py.cli.finding import Finding
from mlx_native_py.cli.rehearsal import abilities, kernels, ops
from mlx_native_py.errors import ShaderCompilationError
from mlx_native_py.pipelines.registry import KernelRegistry
from mlx_native_py.pipelines.sources import kernel_families

pytestmark = pytest.mark.soft

FAMILIES = ["self_check", "sampling"]
TESTS = Path(__file__).parents[1]


def rehearsed(table: Path) -> dict[str, Finding]:
    return {finding.subject: finding for finding in rehearsal.rehearse("metal", table=table, families=FAMILIES)}


@pytest.mark.filterwarnings("ignore:a new MTLBuffer has retain count")
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_mac_has_a_verdict(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bridge = install(monkeypatch, PROFILES[name])
    result = rehearsed(tmp_path)
    assert [finding for finding in result.values() if finding.good is False] == []
    assert "compiled as MSL 3." in result["bfloat"].detail
    assert ("<Plan of 10" in result["replay"].detail) is (name not in ("paravirtual", "no-indirect"))
    assert ("in use" in result["residency"].detail) is (name not in ("macos-14", "paravirtual", "no-residency"))
    assert result["pipelines self_check"].facts["found"]["self_check"]["width"] == 32
    assert result["ops"].good is None and "checkout" in result["ops"].advice
    assert ("retain count 2" if name == "debug-layer" else "retain count 1") in result["memory"].detail
    assert bridge.loose == 0


ABILITIES = {"versions", "settings", "device", "memory", "bfloat", "residency", "dispatch times", "replay", "encoding"}


@pytest.mark.full
@pytest.mark.parametrize("name", ["soft", "m1"])
def test_everything_is_looked_at(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in PROFILES:
        install(monkeypatch, PROFILES[name])
    report = tmp_path / "report.json"
    kind = "metal" if name in PROFILES else "soft"
    assert cli.main(["doctor", "--device", kind, "--mac", "--report", str(report)]) == 0
    told = {finding["subject"]: finding for finding in json.loads(report.read_text())["findings"]}
    printed = capsys.readouterr().out
    assert " 0 faults" in printed and printed.count("\n") == len(told) + 1
    assert set(told) >= ABILITIES | {f"library {family}" for family in kernel_families()}
    assert {subject for subject in told if subject.startswith("op ")} == {f"op {case.op}" for case in CASES}
    assert all(finding["good"] for finding in told.values())
    for family in kernel_families():
        assert unbuilt(told, family) == set(), family


def unbuilt(told: dict[str, Any], family: str) -> set[str]:
    """The kernels of a family without a pipeline."""
    facts = told[f"pipelines {family}"]["facts"]
    built = {label.partition("|")[0] for label in facts["found"]}
    return set(told[f"library {family}"]["facts"]["found"]) - built


def few_ops(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    chosen = ops.chosen_cases

    def cases(folder: Path) -> Any:
        found, bench = chosen(folder)
        return {name: found[name] for name in names}, bench

    monkeypatch.setattr(ops, "chosen_cases", cases)


def test_ops_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PROFILES["m1"])
    few_ops(monkeypatch, "rms_norm", "argmax")
    result = rehearsed(TESTS)
    assert result["op rms_norm"].good and result["op rms_norm"].detail.startswith("right (")


def test_each_op_has_a_case() -> None:
    chosen, _ = ops.chosen_cases(TESTS / "ops")
    assert set(chosen) == {case.op for case in CASES}


def test_pipelines_that_require_constants_are_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, PROFILES["m1"])
    findings = rehearsal.rehearse("metal", table=tmp_path, families=["layout", "delta_net"])
    result = {finding.subject: asdict(finding) for finding in findings}
    assert unbuilt(result, "layout") == set() == unbuilt(result, "delta_net")
    assert "strided_copy_16|0:b1|9:u1" in result["pipelines layout"]["facts"]["found"]


def test_every_required_constant_has_an_ordinary_value() -> None:
    with soft_device() as device:
        for family in kernel_families():
            mtl = device.kernels.shipped(family).mtl
            for name in mtl.functionNames():
                declared = mtl.newFunctionWithName_(name).functionConstantsDictionary().values()
                assert {each.name() for each in declared if each.required()} <= kernels.ORDINARY.keys(), (family, name)


def test_pipelines_are_built_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, PROFILES["m1"])
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    meeting, waits, plain = threading.Barrier(2), iter(range(2)), KernelRegistry._build

    def build(self: KernelRegistry, home: Any, *given: Any) -> Any:
        if "elementwise_add_f32" in home.names and next(waits, None) is not None:
            meeting.wait(20)
        return plain(self, home, *given)

    monkeypatch.setattr(KernelRegistry, "_build", build)
    findings = list(rehearsal.rehearse("metal", table=tmp_path, families=["elementwise"]))
    assert [finding.subject for finding in findings if finding.good is False] == []


def test_all_kernels_that_fail_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, PROFILES["m1"])
    plain = KernelRegistry._build

    def build(self: KernelRegistry, home: Any, name: str, *given: Any) -> Any:
        if name.startswith("sort_blocks"):
            raise ShaderCompilationError(name, "not today")
        return plain(self, home, name, *given)

    monkeypatch.setattr(KernelRegistry, "_build", build)
    found = {each.subject: each for each in rehearsal.rehearse("metal", table=tmp_path, families=["sort"])}
    told = found["pipelines sort"]
    broken = set(told.facts["errors"])
    assert told.good is False and broken == {f"sort_blocks_{kind}" for kind in ("f32", "f16", "bf16", "items")}
    assert all(name in told.detail for name in broken) and "not today" in told.detail
    assert len(told.facts["found"]) == 8


@pytest.mark.parametrize("as_json", [False, True])
def test_what_was_done_before_ctrl_c_is_told(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, PROFILES["m1"])

    def stop(device: MlxDevice) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setitem(abilities.ABILITIES, "replay", stop)
    report = tmp_path / "report.json"
    command = ["doctor", "--device", "metal", "--mac", "--report", str(report), *(["--json"] if as_json else [])]
    assert cli.main(command) == 130
    printed = capsys.readouterr().out
    told = json.loads(report.read_text())
    subjects = [finding["subject"] for finding in told["findings"]]
    assert subjects[-1] == "dispatch times" and told["good"] and told["complete"] is False
    if as_json:
        assert [finding["subject"] for finding in json.loads(printed)] == subjects
    else:
        assert f"{len(subjects)} things stopped after" in printed


def test_ctrl_c_begins_no_more_pipelines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, PROFILES["m1"])
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    built: list[str] = []
    seen, plain = threading.Event(), KernelRegistry._build

    def build(self: KernelRegistry, home: Any, name: str, *given: Any) -> Any:
        built.append(name)
        seen.wait(20)
        return plain(self, home, name, *given)

    def interrupted(text: str) -> None:
        if "pipelines" in text:
            seen.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        monkeypatch.setattr(KernelRegistry, "_build", build)
        monkeypatch.setattr(abilities, "ABILITIES", {})
        monkeypatch.setattr(rehearsal, "ABILITIES", {})
        for _ in rehearsal.rehearse("metal", table=tmp_path, families=["sort"], progress=interrupted):
            pass
    assert len(built) <= 2


def test_a_terminal_shows_what_is_under_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, PROFILES["m1"])
    monkeypatch.setattr(rehearsal, "kernel_families", lambda: FAMILIES)
    few_ops(monkeypatch, "argmax")
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert cli.main(["doctor", "--device", "metal", "--mac", "--report", str(tmp_path / "report.json")]) == 0
    shown = terminal.getvalue().split("\r\x1b[K")
    assert "replay ... " in shown and "op argmax, 1 of 1 ... " in shown and shown[-1] == ""
    assert any(re.fullmatch(r"pipelines sampling, \d+ of \d+ pipelines ... ", each) for each in shown)


def test_a_fault_is_a_line_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, Profile(device=PROFILES["m1"].device, answers={"threadExecutionWidth": 64}))
    monkeypatch.setattr(rehearsal, "kernel_families", lambda: FAMILIES)
    few_ops(monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["doctor", "--device", "metal", "--mac"]) == 1
    printed = capsys.readouterr().out
    assert "FAULT          pipelines self_check: BackendError: kernel 'self_check' needs simdgroups of 32" in printed
    assert "ok             library sampling: compiles" in printed
    told = json.loads((tmp_path / "mlx-native-doctor.json").read_text())
    assert not told["good"]


def test_an_old_host_is_seen_by_the_plain_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PROFILES["m1"])
    findings = {finding.subject: finding for finding in examine("metal")}
    assert findings["language"].detail == "MSL up to 3.2; bfloat compiles" and findings["kernel"].good


def test_a_compiler_that_refuses_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = frozenset({"newLibraryWithSource:options:error:"})
    install(monkeypatch, Profile(device=PROFILES["m1"].device, nil=refusing))
    findings = {finding.subject: finding for finding in examine("metal")}
    assert findings["language"].verdict == "FAULT" and findings["language"].detail == "this Mac has none"


def test_memory_that_stays_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = install(monkeypatch, PROFILES["m1"])
    sizes = iter([0, 16 << 20, 16 << 20])
    with MlxDevice("metal") as device:
        monkeypatch.setattr(type(bridge.device), "currentAllocatedSize", lambda _: next(sizes))
        with pytest.raises(RuntimeError, match="still held"):
            abilities.ABILITIES["memory"](device)


def test_memory_that_is_not_counted_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = install(monkeypatch, PROFILES["paravirtual"])
    with MlxDevice("metal") as device:
        monkeypatch.setattr(type(bridge.device), "currentAllocatedSize", lambda _: 0)
        detail, _ = abilities.ABILITIES["memory"](device)
    assert detail == "a new buffer has retain count 1; the device does not count its memory"
