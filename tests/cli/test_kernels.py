"""Kernels from the command line: run, check and the cache, as somebody with a .metal file uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxError, settings
from mlx_native_py.cli import main as cli
from mlx_native_py.cli.arguments import arguments_for, parse_argument
from mlx_native_py.pipelines.pipeline import Binding

pytestmark = pytest.mark.soft
Captured = pytest.CaptureFixture[str]

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void axpy(device float *y, device const float *x, constant float &a, uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
kernel void shifted(device float *y, device const float *x, uint i [[thread_position_in_grid]]) { y[i] = x[i + 1]; }
kernel void racing(device float *y, uint i [[thread_position_in_grid]]) { y[i / 2] = i; }
constant int factor [[function_constant(0)]];
kernel void scaled(device int *y, constant int3 &by, threadgroup int *shared [[threadgroup(0)]],
                   uint i [[thread_position_in_grid]]) {
  shared[0] = 0;
  y[i] = factor * (by.x + by.y + by.z);
}
kernel void painted(texture2d<float, access::write> image, device float *y, uint2 at [[thread_position_in_grid]]) {
  image.write(y[0], at);
}
"""


@pytest.fixture
def metal(tmp_path: Path) -> str:
    path = tmp_path / "kernels.metal"
    path.write_text(SOURCE)
    return str(path)


def ran(capsys: Captured, *arguments: str) -> Any:
    assert cli.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_run_prints_what_is_written(metal: str, capsys: Captured) -> None:
    arguments = ["run", metal, "--kernel", "axpy", "--arg", "y=ones:4", "--arg", "x=arange:4", "--arg", "a=2"]
    assert cli.main(arguments) == 0
    assert "y (float32[4])\n[1. 3. 5. 7.]\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ("zeros:4", [0, 0, 0, 0]),
        ("const:1.5:2x2", [1.5] * 4),
        ("arange:2x2:f32", [0, 1, 2, 3]),
        ("random:4:f32:7", np.random.default_rng(7).random(4, np.float32).tolist()),
    ],
)
def test_run_makes_arrays(metal: str, capsys: Captured, x: str, expected: list[float]) -> None:
    result = ran(capsys, "run", metal, "--kernel", "axpy", "--arg", "y=zeros:4", "--arg", f"x={x}", "--arg", "a=1")
    assert result["results"]["y"] == {"dtype": "float32", "shape": [4], "values": expected}


def test_a_full_disk_is_told_with_the_file(metal: str, capsys: Captured, tmp_path: Path) -> None:
    full = tmp_path / "full.npy"
    full.symlink_to("/dev/full")
    given = ["--kernel", "racing", "--arg", "y=ones:4", "--save", f"y={full}"]
    assert cli.main(["run", metal, *given]) == 1
    assert f"--save y={full} cannot be written: " in capsys.readouterr().err


def test_run_reads_and_saves_files(metal: str, capsys: Captured, tmp_path: Path) -> None:
    x, saved = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.array([5, 6], np.float32))
    given = ["--arg", "y=out:1", "--arg", f"x={x}", "--threads", "1", "--save", f"y={saved}"]
    assert cli.main(["run", metal, "--kernel", "shifted", *given]) == 0
    assert np.load(saved).tolist() == [6]


def test_run_takes_constants_vectors_and_shared_memory(metal: str, capsys: Captured) -> None:
    given = ["--arg", "y=out:3", "--arg", "by=1,2,3", "--constant", "factor=10", "--shared", "16", "--group", "1"]
    assert ran(capsys, "run", metal, "--kernel", "scaled", *given)["results"]["y"]["values"] == [60, 60, 60]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "has 5 kernels, so --kernel must name one; there are: axpy"),
        (["--kernel", "axpi"], "Did you mean 'axpy'"),
        (["--kernel", "other"], "there are: axpy, "),
        (["--kernel", "painted", "--arg", "y=ones:1"], "needs more arguments, for example --arg image=out:64x64"),
        (["--kernel", "axpy"], "--arg y=zeros:1024 --arg x=random:1024 --arg a=1"),
        (["--kernel", "racing", "--arg", "z=1"], "has no argument 'z'; it has: y"),
        (["--kernel", "racing", "--arg", "y"], "expected NAME=VALUE"),
        (["--kernel", "racing", "--arg", "y=dance:3"], "'dance' is not a kind of value"),
        (["--kernel", "racing", "--arg", "y=ones"], "expected a shape"),
        (["--kernel", "racing", "--arg", "y=ones:3.5"], "'3.5' is not a size"),
        (["--kernel", "racing", "--arg", "y=ones:99999999999999"], "y=ones:99999999999999: Unable to allocate"),
        (["--kernel", "racing", "--arg", "y=arange:99999999999999999999"], "Maximum allowed size"),
        (["--kernel", "racing", "--arg", "y=ones:4:f99"], "'f99' is not an element type"),
        (["--kernel", "racing", "--arg", "y=ones:4:i32"], "declared float"),
        (["--kernel", "racing", "--arg", "y=nothing.npy"], "nothing.npy"),
        (["--kernel", "racing", "--arg", "y=ones:4", "--threads", "many"], "--threads: 'many' is not a size"),
        (["--kernel", "racing", "--arg", "y=ones:4", "--save", "x=x.npy"], "expected NAME=FILE.npy"),
        (
            ["--kernel", "racing", "--arg", "y=ones:4", "--save", "y=no/y.npy"],
            "--save y=no/y.npy: there is no folder no",
        ),
    ],
)
def test_run_refuses(metal: str, capsys: Captured, arguments: list[str], complaint: str) -> None:
    assert cli.main(["run", metal, *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("mlx-native: ") and complaint in error


def test_a_file_that_is_no_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"no array at all")
    with pytest.raises(MlxError, match="is not an array that numpy can load"):
        parse_argument(f"x={path}").value(Binding(0, "x", "buffer", "read"), lambda *_: None)  # type: ignore[arg-type]


def test_check_compiles_every_kernel(metal: str, capsys: Captured) -> None:
    result = ran(capsys, "check", metal)
    assert result["good"]
    told = {each["subject"].rpartition(": ")[2]: each["detail"] for each in result["checks"]}
    assert told["axpy"] == "compiles: axpy(inout float y, float x, float a)"
    assert "factor" in told["scaled"] and "--constant" in told["scaled"]
    assert [each.rpartition(": ")[2] for each in result["not_checked"]] == ["scaled"]
    assert cli.main(["check", metal]) == 0
    out = capsys.readouterr().out
    assert "not checked  " in out and "4 ok, 0 FAULT, 1 not checked" in out


def test_check_finds_what_does_not_compile(metal: str, capsys: Captured, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.metal"
    wrong.write_text("kernel void f(device flot *x) {}")
    assert cli.main(["check", str(wrong), metal]) == 1
    out = capsys.readouterr().out
    assert "FAULT" in out and "unknown type name 'flot'" in out and "axpy: compiles" in out


@pytest.mark.parametrize(
    ("kernel", "arguments", "kind"),
    [
        ("axpy", ["--arg", "x=ones:64", "--arg", "y=ones:64", "--arg", "a=2"], ""),
        ("shifted", ["--arg", "x=ones:64", "--arg", "y=ones:64"], "OutOfBounds"),
        ("racing", ["--arg", "y=ones:64"], "DataRace"),
    ],
)
def test_check_runs_a_kernel(metal: str, capsys: Captured, kernel: str, arguments: list[str], kind: str) -> None:
    assert cli.main(["check", metal, "--kernel", kernel, *arguments, "--json"]) == int(bool(kind))
    [parsed] = json.loads(capsys.readouterr().out)["checks"]
    assert (parsed["good"], parsed["kind"]) == (not kind, kind)
    assert kind != "OutOfBounds" or f"\n{metal}:7:" in parsed["detail"]


def test_check_refuses_two_files_for_one_launch(metal: str, capsys: Captured) -> None:
    assert cli.main(["check", metal, metal, "--kernel", "axpy"]) == 1
    assert "one launch" in capsys.readouterr().err
    assert cli.main(["check", metal, "README.md"]) == 1
    assert "README.md is not a .metal file" in capsys.readouterr().err


PROGRAM = """
import sys
import numpy as np
import mlx_native_py as mn
lib = mn.kernel("kernel void f(device float *y, uint i [[thread_position_in_grid]]) { y[i + OFF] = 1; }"
                .replace("OFF", sys.argv[2]))
try:
    lib.f(np.zeros(8, np.float32))
except mn.MlxError:
    if sys.argv[1] == "raise":
        raise
sys.exit(int(sys.argv[3]))
"""


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["raise", "0", "0"], 0, "no fault in 1 dispatches"),
        (["raise", "1", "0"], 1, "OutOfBounds"),
        (["swallow", "1", "0"], 1, "OutOfBounds"),
        (["raise", "0", "3"], 3, "ended with status 3"),
    ],
)
def test_check_runs_a_program(tmp_path: Path, arguments: list[str], status: int, told: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mlx_native_py", "check", str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == status, done
    assert told in done.stdout
    assert ("Traceback" in done.stderr) is (arguments[:2] == ["raise", "1"])
    assert "runpy" not in done.stderr


def test_cache_is_shown_and_cleared(metal: str, capsys: Captured, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with settings.override(soft_cache_dir=folder, soft_cache_limit=7):
        assert cli.main(["cache"]) == 0
        assert "0.0 MiB in 0 files" in capsys.readouterr().out
        (folder / "a.record").write_bytes(b"x" * 1000)
        (folder / "scratch-1").mkdir()
        facts = ran(capsys, "cache")
        assert facts == {"folder": str(folder), "files": 1, "nbytes": 1000, "limit": 7 << 20}
        facts = ran(capsys, "cache", "clear")
        assert (facts["files"], facts["removed_files"], facts["removed_nbytes"]) == (0, 1, 1000)
    assert [path.name for path in folder.iterdir()] == ["scratch-1"]


def test_arguments_are_asked_for_by_name(metal: str) -> None:
    from mlx_native_py import MlxDevice

    with MlxDevice("soft") as device:
        kernel = device.compile(Path(metal)).shifted
        with pytest.raises(MlxError, match="--arg x=random:1024$"):
            arguments_for(kernel.pipeline, [parse_argument("y=ones:4")], device, kernel.source)
