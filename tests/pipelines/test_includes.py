"""Headers of a `.metal` file: which ones go in, in which order, and which are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlx_native_py import InvalidArgument, MlxDevice, ShaderCompilationError
from mlx_native_py.cli import main as cli
from mlx_native_py.pipelines.includes import source_with_headers

KERNEL = """#include <metal_stdlib>
#include "scale.h"
#include "deep/twice.h"
kernel void k(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = twice(x[i]) + bias; }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "k.metal").write_text(KERNEL)
    (tmp_path / "scale.h").write_text("#pragma once\nconstant float scale = 2.0f;\nconstant float bias = 1.0f;\n")
    (tmp_path / "deep" / "twice.h").write_text(
        '#ifndef TWICE\n#define TWICE\n#include "../scale.h"\n#include "twice.h"\n'
        "inline float twice(float x) { return scale * x; }\n#endif\n"
    )
    return tmp_path


@pytest.mark.soft
def test_headers_go_in_once_and_from_their_own_folder(folder: Path) -> None:
    with MlxDevice("soft") as device:
        x = np.array([1, 2], np.float32)
        device.compile(folder / "k.metal").k(x)
    assert x.tolist() == [3, 5]


@pytest.mark.soft
@pytest.mark.parametrize(
    ("name", "line", "told"),
    [("scale.h", "constant float scale = oops;", "scale.h:1"), ("k.metal", f"{KERNEL}int bad = nothing;", "k.metal:5")],
)
def test_errors_are_told_at_the_line_of_their_file(folder: Path, name: str, line: str, told: str) -> None:
    (folder / name).write_text(line)
    with MlxDevice("soft") as device, pytest.raises(ShaderCompilationError, match=told):
        device.compile(folder / "k.metal")


def test_files_outside_of_the_folders_are_refused(folder: Path) -> None:
    inner = folder / "deep"
    (inner / "k.metal").write_text('\n#include "../scale.h"\n')
    with pytest.raises(InvalidArgument, match=r"k\.metal:2:10: '../scale\.h' is outside of .*include="):
        source_with_headers(inner / "k.metal")
    assert "scale = 2.0f" in source_with_headers(inner / "k.metal", [folder])
    (inner / "link.h").symlink_to("/etc/hostname")
    (inner / "k.metal").write_text('#include "link.h"\n')
    with pytest.raises(InvalidArgument, match="outside"):
        source_with_headers(inner / "k.metal")


@pytest.mark.parametrize("line", ['#include "missing.h"', "#include <metal_stdlib>", "// no include"])
def test_what_is_no_header_of_ours_stays(tmp_path: Path, line: str) -> None:
    (tmp_path / "k.metal").write_text(f"{line}\n")
    assert line in source_with_headers(tmp_path / "k.metal")


@pytest.mark.soft
def test_the_command_line_takes_folders_of_headers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = folder / "deep" / "k.metal"
    moved.write_text(KERNEL.replace("deep/", ""))
    arguments = ["run", str(moved), "--arg", "x=arange:2:f32"]
    assert cli.main(arguments) != 0 and "scale.h" in capsys.readouterr().err
    assert cli.main([*arguments, "-I", str(folder)]) == 0 and "[1. 3.]" in capsys.readouterr().out
