"""`mlx-native doctor --mac`: a verdict for everything, here and on the Macs that the stand-in plays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from standin import PROFILES, Profile, install

from mlx_native_py import MlxDevice
from mlx_native_py.cli import main as cli
from mlx_native_py.cli import rehearsal
from mlx_native_py.cli.doctor import Finding, examine

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
    assert [finding for finding in result.values() if not finding.good] == []
    assert "compiled as MSL 3." in result["bfloat"].detail
    assert ("<Plan of 10" in result["replay"].detail) is (name not in ("paravirtual", "no-indirect"))
    assert ("in use" in result["residency"].detail) is (name not in ("macos-14", "paravirtual", "no-residency"))
    assert result["pipelines self_check"].facts["found"]["built"]["self_check"]["width"] == 32
    assert "checkout" in result["ops"].advice
    assert bridge.loose == 0


@pytest.mark.full
def test_everything_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    assert cli.main(["doctor", "--device", "soft", "--mac", "--report", str(report)]) == 0
    told = json.loads(report.read_text())
    subjects = {finding["subject"] for finding in told["findings"]}
    assert told["good"] and {"library ggml", "pipelines matmul", "op sdpa", "encoding"} <= subjects
    assert "0 faults" in capsys.readouterr().out


def test_ops_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PROFILES["m1"])
    chosen = rehearsal._cases
    monkeypatch.setattr(rehearsal, "_cases", lambda folder: (_few(chosen(folder)[0]), chosen(folder)[1]))
    result = rehearsed(TESTS)
    assert result["op rms_norm"].good and result["op rms_norm"].detail.startswith("right (")


def _few(cases: dict[str, object]) -> dict[str, object]:
    return {op: cases[op] for op in ("rms_norm", "argmax")}


def test_a_fault_is_a_line_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, Profile(device=PROFILES["m1"].device, answers={"threadExecutionWidth": 64}))
    monkeypatch.setattr(rehearsal, "kernel_families", lambda: FAMILIES)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["doctor", "--device", "metal", "--mac"]) == 1
    printed = capsys.readouterr().out
    assert "FAULT pipelines self_check: BackendError: kernel 'self_check' needs simdgroups of 32" in printed
    assert "ok    library sampling: compiles" in printed
    told = json.loads((tmp_path / "mlx-native-doctor.json").read_text())
    assert not told["good"]


def test_an_old_host_is_seen_by_the_plain_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PROFILES["m1"])
    findings = {finding.subject: finding for finding in examine("metal")}
    assert findings["language"].detail == "MSL up to 3.2; bfloat compiles" and findings["kernel"].good


def test_memory_that_stays_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = install(monkeypatch, PROFILES["m1"])
    with MlxDevice("metal") as device:
        monkeypatch.setattr(type(bridge.device), "currentAllocatedSize", lambda _: 1 << 20)
        with pytest.raises(RuntimeError, match="still held"):
            rehearsal._memory(device)
