"""`mlx-native launch`: ranks begin and end together, and the message says which one failed."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from mlx_native_py.cli.launch_report import LaunchReport
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
    until = time.monotonic() + 60.0
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
        (["python", "no-such.py"], "there is no file no-such.py; expected python script.py"),
        (["python", "-u", "script.py"], "options of Python such as -u are not taken"),
        (["python"], "which one?"),
    ],
)
def test_refusals(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", *arguments]) == 1
    assert said in capsys.readouterr().err


def test_without_mpi4py(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert main(["launch", "-n", "2", "info"]) == 1
    assert "pip install 'mlx-native-py[distributed]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "mpiexec (Open MPI) 5.0.11",
            "--allow-run-as-root --oversubscribe --bind-to none --host a,b:2 -x MLX_SOFT_THREADS",
        ),
        ("HYDRA build details:", "-hosts a,b:2 -genvlist MLX_SOFT_THREADS"),
    ],
)
def test_other_hosts_are_told_the_flags(
    version: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command lines of both MPIs, by what their mpiexec says of itself."""
    script = tmp_path / "mpiexec"
    script.write_text(f"#!/bin/sh\necho '{version}'\n")
    script.chmod(0o755)
    monkeypatch.setattr(mpiexec, "find_mpiexec", lambda: script)
    command = mpiexec.command_for(4, ["a", "b:2"], ["MLX_SOFT_THREADS"], ["python", "x.py"])
    assert command == [str(script), "-n", "4", *expected.split(), "python", "x.py"]
    alone = mpiexec.command_for(2, [], ["MLX_SOFT_THREADS"], ["python", "x.py"])
    assert "a,b:2" not in alone and "MLX_SOFT_THREADS" not in alone


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes are not bound to cores here")
def test_ranks_have_cores_of_their_own() -> None:
    """Two ranks that wait for each other on one core would take turns at it."""
    cores = os.sched_getaffinity(0)
    code = "import os; from mlx_native_py import distributed as d; print(sorted(os.sched_getaffinity(0)), flush=True)"
    started = launch("python", "-c", code)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, err
    given = [set(json.loads(line)) for line in out.splitlines()]
    assert len(given) == 2 and given[0] | given[1] <= cores
    if len(cores) > 1:
        assert not given[0] & given[1]


RULE = "=" * 83 + "\n"
MPICH_END = RULE + "\n".join(
    [
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   PID 4711 RUNNING AT one",
        "=   EXIT CODE: 9",
        "=   CLEANING UP REMAINING PROCESSES",
        "=" * 83,
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
    ]
)


@pytest.mark.parametrize(
    ("told", "printed", "blamed"),
    [
        (
            ["rank 0 of 2: x on one, process 4710\n", "rank 1 of 2: x on one, process 4711\n"],
            MPICH_END,
            "rank 1 on one was killed by signal 9 (SIGKILL)",
        ),
        ([], MPICH_END, "process 4711 on one was killed by signal 9 (SIGKILL)"),
        ([], MPICH_END.rpartition("YOUR")[0], "process 4711 on one ended with status 9"),
        (
            ["rank 1 of 2 failed, and ends the others\n", "rank 0 of 2 failed, and ends the others\n"],
            "",
            "rank 1 failed",
        ),
        (["Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort\n"], "", "rank 1 failed"),
        ([], "", "mpiexec ended with status 7"),
    ],
)
def test_what_mpich_says(told: list[str], printed: str, blamed: str) -> None:
    passed_on = io.StringIO()
    report = LaunchReport(passed_on)
    for line in told:
        report.take(line)
    pieces = [f"text\n{RULE}", printed.removeprefix(RULE)] if printed else ["text\n"]  # reads end anywhere
    assert "".join(map(report.without_end, [*pieces, ""])) == "text\n"
    assert report.without_end("more") == ("" if printed else "more")
    assert report.blame(7) == blamed and passed_on.getvalue() == "".join(told)


def test_a_rule_is_no_report() -> None:
    report = LaunchReport(io.StringIO())
    assert [*map(report.without_end, [RULE, f"a\n{RULE}", ""])] == ["", f"{RULE}a\n", RULE]
