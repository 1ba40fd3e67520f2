"""Stray indices into private and threadgroup memory cost their own command buffer at most, on every engine."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from . import overruns
from .lanes_kit import device, launch, pipeline

ENGINES = ["flat", "lanes", "fibers"]
BUDGET = 1.0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stray_index_harms_no_other_kernel(engine: str) -> None:
    tests = Path(__file__).parents[1]
    path = [str(tests), str(tests.parent)]
    script = f"import sys; sys.path[:0] = {path!r}; from soft.overruns import main; main({engine!r})"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    lines = result.stdout.splitlines()
    assert result.returncode == 0, lines[-1:]
    assert len(lines) == len(overruns.STRAY) * 2 * len(overruns.DISTANCES) + 1
    assert [line for line in lines[:-1] if not line.endswith("| fine")] == []
    far = [line for line in lines if line.split(":")[0].endswith("1048576")]
    assert far and not any("no error" in line for line in far)


def _large(words: int, barrier: str) -> str:
    return f"""kernel void k(device int* out [[buffer(0)]], device const int* k [[buffer(1)]],
                             uint i [[thread_position_in_grid]]) {{
  int a[{words}];
  for (int n = 0; n < {words}; n++) a[n] = k[n & 7] + n;
  {barrier}
  for (int round = 0; round < k[2]; round++)
    for (int n = 0; n < {words}; n++) a[(n * 7 + k[1]) % {words}] += a[n];
  out[i & 255] = a[k[0]];
}}"""


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("barrier", ["", "threadgroup_barrier(mem_flags::mem_threadgroup);"])
def test_large_private_arrays_end_in_time_and_give_their_memory_back(engine: str, barrier: str) -> None:
    on = device(engine, watchdog_seconds=BUDGET)
    state = pipeline(_large(1 << 17, barrier), on)
    given = [np.zeros(256, np.int32), np.array([0, 1, 0, 3, 4, 5, 6, 7], np.int32)]
    launch(state, given, (64, 1, 1), (64, 1, 1))  # compiles for the shape
    given[1][2] = 1 << 30
    before = _resident_bytes()

    def seconds() -> float:
        start = time.monotonic()
        _, commands = launch(state, given, (4096, 1, 1), (1024, 1, 1))
        assert "timeout" in commands.error().localizedDescription()
        return time.monotonic() - start

    # A machine that is busy with other things may need a second look.
    assert any(seconds() <= 2 * BUDGET for _ in range(3))
    assert _resident_bytes() - before < 64 << 20


def test_private_arrays_beyond_the_machine_are_refused_with_their_size() -> None:
    state = pipeline(_large(1 << 25, "threadgroup_barrier(mem_flags::mem_threadgroup);"), device("fibers"))
    given = [np.zeros(256, np.int32), np.arange(8, dtype=np.int32)]
    _, commands = launch(state, given, (1024, 1, 1), (1024, 1, 1))
    error = commands.error().localizedDescription()
    assert "out of memory" in error and f"{1024 << 27}"[:3] in error and "fewer threads" in error


NEIGHBOUR = """kernel void k(device int* out [[buffer(0)]], device const int* k [[buffer(1)]],
                             uint i [[thread_position_in_grid]]) {
  int a[8];
  for (int n = 0; n < 8; n++) a[n] = k[n & 7];
  if (int(i) == k[1]) for (int n = 0; n != k[0]; n--) a[n] = 99;
  out[i] = a[k[2] & 7];
}"""


def test_a_run_of_writes_into_the_stack_of_a_neighbour_is_told() -> None:
    """Down to 48 KB below the array, where no page faults: by the marks at the upper end of each stack."""
    state = pipeline(NEIGHBOUR, device("fibers"))
    given = [np.zeros(64, np.int32), np.array([-12000, 40, 2, 3, 4, 5, 6, 7], np.int32)]
    _, commands = launch(state, given, (64, 1, 1), (64, 1, 1))
    error = commands.error()
    assert error is not None and "stack overflow" in error.localizedDescription()
    given[1][0] = 0
    _, commands = launch(state, given, (64, 1, 1), (64, 1, 1))
    assert commands.error() is None
