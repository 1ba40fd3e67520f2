"""The command line: facts, checks with advice, and clear failures."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import mlx_native_py
from mlx_native_py import settings
from mlx_native_py.cli import doctor
from mlx_native_py.cli import main as cli


@pytest.mark.soft
def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", "--device", "soft"]) == 0
    rows = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert rows["kind"].strip() == "soft"
    assert rows["stage boundary sampling"].strip() == "yes"
    assert "GiB" in rows["max buffer length"]


@pytest.mark.soft
def test_doctor_when_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["doctor", "--device", "soft"])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "FAULT" not in printed
    for subject in ("python", "settings", "backend", "Apple's Metal", "compiler", "cache folder", "kernel"):
        assert any(line.startswith(subject) for line in printed.splitlines()), subject


@pytest.mark.soft
def test_doctor_finds_a_missing_compiler(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with settings.override(soft_clang=tmp_path / "clang", soft_cache_dir=tmp_path / "cache"):
        findings = {f.subject: f for f in doctor.examine("soft")}
        assert cli.main(["doctor", "--device", "soft"]) == 1
    assert not findings["compiler"].good
    assert "MLX_SOFT_CLANG" in findings["compiler"].advice
    assert "FAULT" in capsys.readouterr().out


@pytest.mark.soft
def test_doctor_finds_an_open_cache_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with settings.override(soft_cache_dir=tmp_path):
        findings = {f.subject: f for f in doctor.examine("soft")}
    assert not findings["cache folder"].good
    assert "700" in findings["cache folder"].advice


@pytest.mark.soft
def test_doctor_does_not_mind_compilations_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that live only as long as a compilation are gone at any moment, and do not count."""
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: [*listed(folder), folder / "lock-that-is-gone"])
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    findings = {f.subject: f for f in doctor.examine("soft")}
    assert findings["cache folder"].good, findings["cache folder"]


def test_doctor_finds_a_wrong_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLX_PROFILE_CB", "yes")
    last = doctor.examine()[-1]
    assert (last.subject, last.good) == ("settings", False)
    assert "MLX_PROFILE_CB" in last.detail


@pytest.mark.soft
def test_doctor_names_a_misspelt_variable_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLX_SOFT_ENGIN", "lanes")
    with warnings.catch_warnings(record=True) as warned:
        findings = {f.subject: f for f in doctor.examine("soft")}
    assert not warned
    assert "did you mean MLX_SOFT_ENGINE" in findings["variables"].detail


def test_a_wrong_flag_is_said_plainly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MLX_NATIVE_DEVICE", "gpu")
    assert cli.main(["info"]) == 1
    assert capsys.readouterr().err == "mlx-native: MLX_NATIVE_DEVICE is 'gpu'; allowed: auto, metal or soft\n"


@pytest.mark.parametrize("arguments", [[], ["dance"], ["bench"], ["bench", "hard"], ["info", "--device", "gpu"]])
def test_unknown_commands_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 2
    assert "usage: mlx-native" in capsys.readouterr().err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    printed = capsys.readouterr().out.split()
    assert all(command in printed and purpose.split()[0] in printed for command, purpose in cli.COMMANDS.items())


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_describes_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([command, "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert left.value.code == 0
    assert cli.COMMANDS[command][1:] in printed
    assert "--json" in printed or command in ("bench", "launch")


@pytest.mark.parametrize("subject", ["soft", "ops", "matvec", "encode", "decode"], ids="bench {}".format)
def test_every_bench_describes_itself(subject: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["bench", subject, "--help"])
    printed = capsys.readouterr().out
    assert left.value.code == 0
    assert f"usage: mlx-native bench {subject}" in printed and "--json" in printed


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"mlx-native {mlx_native_py.__version__}\n"


def imported_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after a statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_importing_the_package_is_cheap() -> None:
    """The modules are counted, because times on a busy machine say little."""
    modules = imported_by("import mlx_native_py")
    assert {name for name in modules if name.startswith("mlx_native_py")} == {"mlx_native_py"}
    assert "numpy" not in modules and "asyncio" not in imported_by("import mlx_native_py; mlx_native_py.kernel")


def test_asking_for_help_is_cheap() -> None:
    modules = imported_by(
        "import contextlib, io, mlx_native_py.cli.main as cli\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): cli.main(['--help'])"
    )
    assert "mlx_native_py.cli.main" in modules and "numpy" not in modules


@pytest.mark.soft
def test_json_of_info_doctor_and_ops(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for command in (["info", "--device", "soft"], ["doctor", "--device", "soft"], ["ops"]):
        assert cli.main([*command, "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    info, findings, ops = told
    assert info["kind"] == "soft" and info["max_buffer_length"] > 0
    assert all(finding["good"] for finding in findings)
    assert {"op": "add", "family": "elementwise"}.items() <= next(each for each in ops if each["op"] == "add").items()
