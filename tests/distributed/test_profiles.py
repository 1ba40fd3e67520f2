"""`generate` over ranks: communication beside GPU time, one trace of all ranks, a rank that is killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from distributed.ranks import run_ranks
from distributed.test_launch import launch
from mlx_native_py.models.tiny import write_tiny

pytest.importorskip("mpi4py", reason="the extra distributed is not installed")


def test_profile_and_trace(tmp_path: Path) -> None:
    model, trace = str(write_tiny(tmp_path / "model")), tmp_path / "trace.json"
    what = ["--raw", "--model", model, "--max-tokens", "3", "--json", "--profile", "--trace", str(trace)]
    started = launch("generate", "-", *what, "--tensor-parallel", stdin="a b c")
    out, err = started.communicate(timeout=120)
    assert started.returncode == 0, err
    assert len(json.loads(out)["ids"]) == 3
    assert re.search(r"rank +GPU ms +communication ms +calls +bytes +all ms", err), err
    rows = [line.split() for line in err.splitlines() if re.fullmatch(r"[01]( +[\d.,]+){5}", line)]
    assert [row[0] for row in rows] == ["0", "1"] and all(float(row[2]) > 0 and int(row[3]) > 3 for row in rows)
    events = json.loads(trace.read_text())["traceEvents"]
    names = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    assert names == {1: "rank 0 of 2", 2: "rank 1 of 2"}
    sums = {pid: [each for each in events if each["name"] == "all_sum" and each["pid"] == pid] for pid in names}
    assert len(sums[1]) == len(sums[2]) > 3
    # On one clock, the same sum is under way on both ranks at once.
    for own, other in zip(sums[1], sums[2], strict=True):
        assert own["ts"] < other["ts"] + other["dur"] and other["ts"] < own["ts"] + own["dur"]
    assert {each["pid"] for each in events if each["name"] == "decode" and each["ph"] == "X"} == {1, 2}


@pytest.mark.full
def test_a_killed_rank_ends_a_generation(tmp_path: Path) -> None:
    """Killed in the middle, it is named, and nothing is left."""
    model = str(write_tiny(tmp_path / "model"))
    started = launch("generate", "a b", "--raw", "--model", model, "--max-tokens", "100000", "--tensor-parallel")
    assert started.stdout is not None
    started.stdout.read(1)
    victim = next(each for each in _ranks(started) if _variable(each, "OMPI_COMM_WORLD_RANK", "PMI_RANK") == "1")
    begin = time.monotonic()
    subprocess.run(["kill", f"-{int(signal.SIGKILL)}", str(victim)], check=True)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 1 and re.search("rank 1 .*was killed by signal 9", err), err
    assert time.monotonic() - begin < 10.0


def _ranks(started: subprocess.Popen[str]) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 1) for line in listed.splitlines()[1:]]
    found = [int(pid) for pid, words in rows if "mlx_native_py.cli.rank" in words]
    return [each for each in found if _is_under(each, started.pid)]


def _is_under(process: int, ancestor: int) -> bool:
    while process > 1 and process != ancestor:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process == ancestor and process != 1


def _variable(process: int, *names: str) -> str:
    found = dict(each.partition("=")[::2] for each in Path(f"/proc/{process}/environ").read_text().split("\0"))
    return next((found[name] for name in names if name in found), "")


def test_open_mpi_does_not_end_standard_input(tmp_path: Path) -> None:
    """So it is refused there; MPICH's launcher passes it on to the first rank."""
    done = run_ranks(2, "reads_input.py", str(write_tiny(tmp_path / "model")))
    if "--oversubscribe" in done.args:
        assert done.returncode != 0 and "use mlx-native launch, or give the text as an argument" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
