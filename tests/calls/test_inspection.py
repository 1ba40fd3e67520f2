"""The kernel explorer: what it says of lines whose use of memory is known."""

from __future__ import annotations

import json
from pathlib import Path

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
    found = kernel(SOURCE).mix.inspect(64)
    told = {(a.line, a.kind, a.argument, a.nbytes, a.pattern, a.stride, a.conflicts) for a in found.accesses}
    assert told >= EXPECTED, sorted(EXPECTED - told)
    assert found.found is not None and found.found.has_loops and found.found.divergent_branches >= 1
    assert found.threadgroup_bytes == 8192 and found.group == (64, 1, 1)
    assert [each.access for each in found.arguments] == ["read_write", "read", "read", "read"]
    assert next(a.source for a in found.accesses if a.line == 13) == "y[i] = sum;"
    text = str(found)
    assert "8 threads on one bank" in text and "how fast an Apple GPU is" in text and "flat:" in text


def test_what_runs_is_not_changed() -> None:
    with MlxDevice("soft") as device:
        lib = device.compile(SOURCE)
        before = lib.copy.pipeline
        found = lib.copy.inspect()
        assert lib.copy.pipeline is before
    assert (found.nbytes("load"), found.nbytes("store")) == (16, 16)
    assert found.engine == "lanes" and found.group == (256, 1, 1)


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
