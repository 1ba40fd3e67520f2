"""`mlx-native doctor --mac`: a verdict for everything, here and on the Macs that the stand-in plays."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from standin import PROFILES, Profile, install

from mlx_native_py import MlxDevice
from mlx_native_py.cli import main as cli
from mlx_native_py.cli import rehearsal
from mlx_native_py.cli.doctor import examine
from mlx_native_py.cli.finding import Finding
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
    assert {subject for subject in told if subject.startswith("op ")} == {f"op {case.op}" for case in table_cases()}
    for family in kernel_families():
        assert unbuilt(told, family) == set(), family


def table_cases() -> Iterable[Any]:
    chosen, _ = rehearsal._cases(TESTS / "ops")
    return chosen.values()


def unbuilt(told: dict[str, Any], family: str) -> set[str]:
    """The kernels of a family without a pipeline or a word on why there is none."""
    nothing: dict[str, Any] = {"facts": {"found": {}}, "detail": ""}
    kinds = [told.get(f"{kind} {family}", nothing) for kind in ("pipelines", "specialised pipelines")]
    built = {label for kind in kinds for label in kind["facts"]["found"]}
    left = told.get(f"other pipelines {family}", nothing)["detail"]
    names = told[f"library {family}"]["facts"]["found"]
    return {name for name in names if name not in left and not any(label.startswith(name) for label in built)}


def test_ops_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PROFILES["m1"])
    chosen = rehearsal._cases
    monkeypatch.setattr(rehearsal, "_cases", lambda folder: (_few(chosen(folder)[0]), chosen(folder)[1]))
    result = rehearsed(TESTS)
    assert result["op rms_norm"].good and result["op rms_norm"].detail.startswith("right (")


def _few(cases: dict[str, object]) -> dict[str, object]:
    return {op: cases[op] for op in ("rms_norm", "argmax")}


def test_pipelines_with_constants_are_built_with_the_values_of_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PROFILES["m1"])
    chosen = rehearsal._cases
    monkeypatch.setattr(rehearsal, "_cases", lambda folder: ({"copy": chosen(folder)[0]["copy"]}, chosen(folder)[1]))
    findings = rehearsal.rehearse("metal", table=TESTS, families=["layout", "delta_net"])
    result = {finding.subject: finding for finding in findings}
    built = result["specialised pipelines layout"].facts["found"]
    # Both have the constant that says how many elements a thread takes; only the copy was run.
    assert {label.partition("_")[0] for label in built} == {"strided", "concat"} and len(built) == 8
    assert result["other pipelines delta_net"].good is None
    assert "no op here has given constants for" in result["other pipelines delta_net"].detail


def test_a_fault_is_a_line_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, Profile(device=PROFILES["m1"].device, answers={"threadExecutionWidth": 64}))
    monkeypatch.setattr(rehearsal, "kernel_families", lambda: FAMILIES)
    monkeypatch.setattr(rehearsal, "_cases", lambda folder: ({}, None))
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
    with MlxDevice("metal") as device:
        monkeypatch.setattr(type(bridge.device), "currentAllocatedSize", lambda _: 1 << 20)
        with pytest.raises(RuntimeError, match="still held"):
            rehearsal._memory(device)
