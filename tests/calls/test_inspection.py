"""The kernel explorer: what it says of lines whose use of memory is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mlx_native_py import MlxDevice, kernel
from mlx_native_py.cli import main as cli

pytestmark = pytest.mark.soft

SOURCE = """#include <metal_stdlib>
using namespace metal;
kernel void mix(device float *y, device const float *x, device const uint *at, constant uint &n,
                uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {
  threadgroup float part[2048];
  part[t * 8] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = part[t];
  sum += x[i * 4];
  sum += x[i * n];
  sum += x[at[i]];
  for (uint k = 0; k < at[i]; k++) sum *= x[n];
  y[i] = sum;
}
kernel void copy(device float4 *y, device const float4 *x, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }
"""
EXPECTED = {
    (6, "load", "x", 4, "neighbouring", 4, 1),
    (6, "store", "threadgroup", 4, "strided", 32, 8),
    (8, "load", "threadgroup", 4, "neighbouring", 4, 1),
    (9, "load", "x", 4, "strided", 16, 1),
    (10, "load", "n", 4, "same", 0, 1),
    (10, "load", "x", 4, "strided", None, 1),
    (11, "load", "at", 4, "neighbouring", 4, 1),
    (11, "load", "x", 4, "gathered", None, 1),
    (13, "store", "y", 4, "neighbouring", 4, 1),
}


def test_lines_are_classified() -> None:
    result = kernel(SOURCE).mix.inspect(group=64)
    told = {(a.line, a.kind, a.argument, a.nbytes, a.pattern, a.stride, a.conflicts) for a in result.accesses}
    assert told >= EXPECTED, sorted(EXPECTED - told)
    assert result.found is not None and result.found.has_loops and result.found.divergent_branches >= 1
    assert result.threadgroup_bytes == 8192 and result.group == (64, 1, 1)
    assert [each.access for each in result.arguments] == ["read_write", "read", "read", "read"]
    assert next(a.source for a in result.accesses if a.line == 13) == "y[i] = sum;"
    text = str(result)
    assert "8 threads on one bank" in text and "how fast an Apple GPU is" in text and "flat:" in text


def test_what_runs_is_not_changed() -> None:
    with MlxDevice("soft") as device:
        lib = device.compile(SOURCE)
        before = lib.copy.pipeline
        result = lib.copy.inspect()
        assert lib.copy.pipeline is before
    assert (result.nbytes("load"), result.nbytes("store")) == (16, 16)
    assert result.engine == "lanes" and result.group == (256, 1, 1)
    assert ">load x neighbouring<" in result._repr_html_()


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.metal"
    path.write_text(SOURCE)
    assert cli.main(["inspect", str(path), "--group", "32x2"]) == 0
    out = capsys.readouterr().out
    assert "mix(read_write float y" in out and "copy(read_write float4 y" in out and "gathered" in out
    assert cli.main(["inspect", str(path), "--kernel", "copy", "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)
    assert told["kernel"] == "copy" and told["found"]["accesses"][0]["pattern"] == "neighbouring"
    assert "Apple" in told["note"]
    assert cli.main(["inspect", str(path), "--kernel", "kopy"]) == 1


COUNTED = """
kernel void part(device float *y, device const float *x, constant uint &rounds, uint i [[thread_position_in_grid]]) {
  float sum = x[i];
  if (i % 4 == 0) {
    for (uint k = 0; k < rounds + i % 8; k++)
      sum = sum * x[k] + 1.0f;
  }
  y[i] = sum;
}
"""


def test_a_launch_is_counted_line_by_line() -> None:
    """Of 96 threads every fourth goes round: 12 of them 3 times and 12 of them 7 times."""
    y, x = np.zeros(100, np.float32), np.ones(100, np.float32)
    result = kernel(COUNTED).part.inspect(y, x, 3, threads=100, group=32)
    measured = result.measured
    assert measured is not None and not result.unmeasured and not y.any(), "the launch ran on copies"
    assert (measured.launched, measured.counted, measured.simdgroups, measured.group) == (100, 96, 3, (32, 1, 1))
    lines = {each.line: each for each in measured.lines}
    assert (lines[3].threads, lines[3].loads, lines[3].active_share) == (96, 96, 1.0)
    assert (lines[4].branches, lines[4].divided) == (3, 3)
    assert (lines[6].threads, lines[6].loads) == (120, 120)
    assert lines[6].active_share == pytest.approx(120 / (3 * 7 * 32))
    assert (lines[8].threads, lines[8].stores) == (96, 96)
    assert measured.instructions["load"] == sum(each.loads for each in measured.lines)
    assert 0.3 < measured.divergence_share < 0.9
    shown = result._repr_html_()
    assert ">sum = sum * x[k] + 1.0f;<" in shown and "96 of 100 threads" in shown and repr(result) == str(result)
    assert "96 of 100 threads" in str(result) and "how many instructions an Apple GPU takes" in str(result)


def test_threads_that_stay_together_do_not_diverge() -> None:
    result = kernel(SOURCE).copy.inspect(y=np.zeros((64, 4), np.float32), x=np.ones((64, 4), np.float32), threads=64)
    assert result.measured is not None and result.group == (64, 1, 1)
    assert (result.measured.divided, result.measured.divergence_share, result.measured.counted) == (0, 0.0, 64)
    empty = np.zeros((0, 4), np.float32)
    assert kernel(SOURCE).copy.inspect(empty, empty).unmeasured == "nothing was launched"


def test_command_counts_a_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.metal"
    path.write_text(COUNTED)
    launch = ["--arg", "y=zeros:64:f32", "--arg", "x=ones:64:f32", "--arg", "rounds=2", "--threads", "64"]
    assert cli.main(["inspect", str(path), *launch, "--group", "32"]) == 0
    out = capsys.readouterr().out
    assert "64 of 64 threads, in 2 simdgroups" in out and "load x neighbouring" in out
    assert "divided" in out and "Counted on the software" in out
    assert cli.main(["inspect", str(path), *launch, "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)
    assert told["measured"]["counted"] == 64 and "Apple GPU" in told["measured_note"]


def test_lines_of_headers_have_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = "static float twice(device const float *x, uint i) {\n  return 2 * x[4 * i];\n}\n"
    (tmp_path / "twice.h").write_text(header)
    body = (
        '#include "twice.h"\nkernel void k(device float *y, device const float *x, uint i [[thread_position_in_grid]])'
    )
    path = tmp_path / "k.metal"
    path.write_text(body + " {\n  y[i] = twice(x, i);\n}\n")
    launch = ["--arg", "y=zeros:32:f32", "--arg", "x=ones:128:f32", "--threads", "32"]
    assert cli.main(["inspect", str(path), *launch, "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)
    counted = {(each["file"], each["line"]): each for each in told["measured"]["lines"]}
    assert counted["twice.h", 2]["loads"] == 32 and counted["twice.h", 2]["source"] == "return 2 * x[4 * i];"
    assert counted["", 3]["stores"] == 32 and counted["", 3]["source"] == "y[i] = twice(x, i);"
    assert cli.main(["inspect", str(path)]) == 0
    assert "twice.h:2  return 2 * x[4 * i];  load    x" in capsys.readouterr().out
