"""`mlx-native launch`: ranks begin and end together, and the message says which one failed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from mlx_native_py.cli.main import main
from mlx_native_py.distributed import mpiexec

ROOT = Path(__file__).parent.parent.parent
SCRIPT = Path(__file__).parent / "programs" / "ends_how.py"


def launch(*arguments: str, stdin: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mlx_native_py", "launch", "-n", "2", *arguments]
    told = {"PYTHONPATH": str(ROOT), "MLX_SOFT_THREADS": "1"}
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile("w+") as given:
        given.write(stdin)
        given.seek(0)
        return subprocess.Popen(
            command, env=os.environ | told, stdin=given, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )


pytest.importorskip("mpi4py", reason="the extra distributed is not installed")


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ("well", 0, "rank 1 of 2: "),
        ("killed", 1, "rank 1 on .* was killed by signal 9"),
        ("raised", 1, "(?s)ValueError: no.*rank 1 of 2 failed.*launch: rank 1 failed; all ranks were ended"),
        ("exit", 1, "rank 1 failed; all ranks were ended"),
    ],
)
def test_ends(how: str, status: int, said: str) -> None:
    started = launch("python", str(SCRIPT), how)
    out, err = started.communicate(timeout=60)
    assert started.returncode == status, err
    assert re.search(said, err), err
    assert err.count("rank 0 of 2: ") == 1
    assert_nobody_is_left(out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_all_ranks(number: signal.Signals) -> None:
    started = launch("python", str(SCRIPT), "never")
    assert started.stdout is not None
    lines = [started.stdout.readline() for _ in range(2)]
    started.send_signal(number)
    out, err = started.communicate(timeout=30)
    assert started.returncode == 130 and "stopped, and all ranks with it" in err
    assert_nobody_is_left("".join(lines) + out)


def assert_nobody_is_left(printed: str) -> None:
    processes = [int(line.split()[-1]) for line in printed.splitlines() if line.startswith("process ")]
    assert len(processes) == 2
    # mpiexec leaves some of the dead to the first process of the machine, which may be slow to bury them.
    until = time.monotonic() + 10.0
    while left := [each for each in processes if exists(each)]:
        assert time.monotonic() < until, f"processes {left} are still there"
        time.sleep(0.05)


def exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-n", "2", "--hosts", "no.such.host.invalid", "info"], "there is no host 'no.such.host.invalid'"),
        (["-n", "0", "info"], "-n is 0, expected at least 1"),
        ([], "launch takes a command"),
    ],
)
def test_refusals(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", *arguments]) == 1
    assert said in capsys.readouterr().err


def test_without_mpi4py(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert main(["launch", "-n", "2", "info"]) == 1
    assert "pip install 'mlx-native-py[distributed]'" in capsys.readouterr().err


def test_other_hosts_are_told_the_flags() -> None:
    command = mpiexec.command_for(4, ["a", "b:2"], ["MLX_SOFT_THREADS"], ["python", "x.py"])
    assert command[1:3] == ["-n", "4"] and command[-2:] == ["python", "x.py"]
    assert "a,b:2" in command
