"""`mlx-native profile`, `mlx-native compare`, and the table at a process's end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mlx_native_py import load_profile
from mlx_native_py.cli import main as cli

pytestmark = pytest.mark.soft
ROOT = Path(__file__).parent.parent.parent

SCRIPT = """
import sys
import numpy as np
from mlx_native_py import kernel
lib = kernel("kernel void twice(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }")
for _ in range(5):
    lib.twice(np.ones(1024, np.float32))
print("done", sys.argv[1:])
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLX_NATIVE_DEVICE", "soft")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def test_profile(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = [str(tmp_path / name) for name in ("a.json", "b.json")]
    for path in saved:
        assert cli.main(["profile", script, "--save", path, "--args", "one '--two words'"]) == 0
    printed = capsys.readouterr().out
    assert "done ['one', '--two words']" in printed
    assert re.search(r"^twice +5\*", printed, re.MULTILINE)
    assert len(load_profile(saved[0]).records) == 5
    assert cli.main(["compare", *saved]) == 0
    assert "twice" in capsys.readouterr().out
    assert cli.main(["compare", *saved, "--by", "label", "--json"]) == 0
    (change,) = json.loads(capsys.readouterr().out)
    assert change["calls"] == [4, 4]


def test_trace_and_report(script: str, tmp_path: Path) -> None:
    saved, trace, page = (str(tmp_path / name) for name in ("a.json", "trace.json", "run.html"))
    assert cli.main(["profile", script, "--save", saved]) == 0
    assert cli.main(["profile", script, "--trace", trace, "--html", page, "--against", saved]) == 0
    assert json.loads(Path(trace).read_text())["traceEvents"]
    assert '"verdict":' in Path(page).read_text()


def test_profile_as_json(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profile", script, "--json", "--level", "cb"]) == 0
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["command_buffers"]) == 5
    assert "done []" in printed.err


def test_a_regression_fails(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fast, slow = tmp_path / "a.json", tmp_path / "b.json"
    assert cli.main(["profile", script, "--save", str(fast)]) == 0
    table = json.loads(fast.read_text())
    for record in table["command_buffers"]:
        for dispatch in record["dispatches"]:
            dispatch["gpu_ns"] = 10**9
    slow.write_text(json.dumps(table))
    assert cli.main(["compare", str(fast), str(slow), "--fail"]) == 1
    assert "slower" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "status"), [("raise SystemExit(3)", 3), ("raise SystemExit('no')", 1), ("1 / 0", 1)])
def test_the_scripts_status_is_kept(script: str, text: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    Path(script).write_text(text)
    assert cli.main(["profile", script]) == status
    assert "nothing was committed" in capsys.readouterr().out


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profile", str(tmp_path / "none.py")]) == 1
    assert "expected a Python program" in capsys.readouterr().err
    assert cli.main(["compare", str(tmp_path / "none.json"), "b"]) == 1
    assert "none.json" in capsys.readouterr().err


@pytest.mark.parametrize(("flag", "how"), [("MLX_PROFILE_CB", "apportioned"), ("MLX_PROFILE_DISPATCH", "simulated")])
def test_tables_at_exit(script: str, flag: str, how: str) -> None:
    environment = {**os.environ, flag: "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "done []\n"
    lines = done.stderr.splitlines()
    assert any(line.startswith("label") for line in lines)
    assert any(line.startswith("twice") and "5*" in line for line in lines), done.stderr
    assert "Traceback" not in done.stderr
