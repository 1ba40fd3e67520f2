"""The command line: facts, checks with advice, and clear failures."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        found = {f.subject: f for f in doctor.examine("soft")}
        assert cli.main(["doctor", "--device", "soft"]) == 1
    assert not found["compiler"].good
    assert "MLX_SOFT_CLANG" in found["compiler"].advice
    assert "FAULT" in capsys.readouterr().out


@pytest.mark.soft
def test_doctor_finds_an_open_cache_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with settings.override(soft_cache_dir=tmp_path):
        found = {f.subject: f for f in doctor.examine("soft")}
    assert not found["cache folder"].good
    assert "700" in found["cache folder"].advice


def test_doctor_finds_a_wrong_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLX_PROFILE_CB", "yes")
    last = doctor.examine()[-1]
    assert (last.subject, last.good) == ("settings", False)
    assert "MLX_PROFILE_CB" in last.detail


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
    printed = capsys.readouterr().out
    assert all(command in printed for command in ("info", "doctor", "bench"))
