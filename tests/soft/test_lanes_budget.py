"""Kernels that would take the compiler long: their code stays short, or lanes decline them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from mlx_native_py.softmetal.engines.lanes.analysis import regions
from mlx_native_py.softmetal.msl import lanes
from mlx_native_py.softmetal.toolchain import CompileLimits

from . import lanes_kit as kit
from . import test_lanes_memory, test_lanes_pass

GROUP: kit.Size = (64, 1, 1)
SMALL = """kernel void k(device const float *x, device float *out, uint i [[thread_position_in_grid]]) {
  out[i] = simd_sum(x[i]); }"""
# A tile of a matrix whose sides are no multiples of the tile's: each element has a guard of its own.
TILE = """kernel void k(device const half *x, device float *out, constant int *n, uint i [[thread_position_in_grid]]) {{
  int row = (i & 31) / 4, column = i % 4;
  float sums[{count}] = {{}};
  for (int round = 0; round < n[3]; ++round) {{
    half tile[{count}];
    _Pragma("clang loop unroll(full)")
    for (int r = 0; r < {count} / 4; ++r)
      _Pragma("clang loop unroll(full)")
      for (int c = 0; c < 4; ++c)
        tile[4 * r + c] = row + 8 * r < n[1] && 4 * column + c < n[2] - round
          ? x[(row + 8 * r) * n[0] + 4 * column + c] : half(0);
    simdgroup_barrier(mem_flags::mem_none);
    _Pragma("clang loop unroll(full)")
    for (int j = 0; j < {count}; ++j) sums[j] += float(tile[j]) * float(tile[(j * 7 + 3) % {count}]);
  }}
  float total = 0;
  for (int j = 0; j < {count}; ++j) total = total * 0.5f + sums[j];
  out[i] = total;
}}"""


def _arrays(count: int) -> list[kit.Array]:
    x = np.random.default_rng(5).integers(-9, 9, count * 2 * 40).astype(np.float16)
    return [x, np.zeros(64, np.float32), np.array([40, count - 7, 14, 3], np.int32)]


def _settled(state: Any, arrays: list[kit.Array]) -> list[kit.Array]:
    """What a launch gives once the choice of engine is made."""
    state.soft_prepare(GROUP)
    end = time.monotonic() + 120
    while not state.soft_settled():
        assert time.monotonic() < end
        time.sleep(0.02)
    left, commands = kit.launch(state, arrays, GROUP, GROUP)
    assert commands.error() is None
    return left


def test_a_large_kernel_stays_within_the_budget() -> None:
    state = kit.pipeline(kit.fresh(TILE.format(count=160)), kit.device("auto"))
    arrays = _arrays(160)
    left = _settled(state, arrays)
    assert state.soft_engine() == "lanes", state.soft_declined()
    np.testing.assert_array_equal(left[1], kit.run(TILE.format(count=160), arrays, GROUP, GROUP, "fibers")[1])


def test_large_kernels_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "_LARGE", 0)
    monkeypatch.setattr(lanes, "_pass_identity", lambda: "large")
    for frame in test_lanes_memory.FRAMES:
        for bodies in (test_lanes_memory.ACCESSES, test_lanes_memory.STRIDED):
            test_lanes_memory.check(list(bodies.values()), frame)
    safe = [
        body for body in (*test_lanes_pass.BODIES.values(), *test_lanes_pass.WHOLE.values()) if "return" not in body
    ]
    test_lanes_pass._compare("".join(f"{{ {body} }}\n" for body in safe), GROUP)


@pytest.mark.parametrize(
    ("allowed", "cpu_seconds", "data_mib"),
    [
        (CompileLimits(), lanes.MOST_SECONDS, lanes.MOST_MIB),
        (CompileLimits(seconds=5), None, lanes.MOST_MIB),
        (CompileLimits(memory_mib=256), lanes.MOST_SECONDS, None),
        (CompileLimits(seconds=5, memory_mib=256), None, None),
    ],
)
def test_settings_that_allow_less_of_one_thing_leave_the_other(
    allowed: CompileLimits, cpu_seconds: int | None, data_mib: int | None
) -> None:
    budget = lanes._budget(allowed)
    assert (budget.cpu_seconds, budget.data_mib) == (cpu_seconds, data_mib)
    assert (budget.seconds, budget.memory_mib) == (allowed.seconds, allowed.memory_mib)


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("MOST_SCALAR", 10, "too large: one thread's code has"),
        ("MOST_VECTOR", 10, "too large: the code of 32 lanes has"),
        ("MOST_MIB", 4, "needed more than 4 MiB"),
    ],
)
def test_what_takes_too_much_is_declined_once(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, reason: str
) -> None:
    monkeypatch.setattr(lanes, limit, value)
    source, arrays = kit.fresh(SMALL), [np.ones(64, np.float32), np.zeros(64, np.float32)]
    state = kit.pipeline(source, kit.device("auto"))
    assert _settled(state, arrays)[1].tolist() == [32] * 64
    assert state.soft_engine() == "fibers"
    assert reason in state.soft_declined()[f"lanes {GROUP}"]
    monkeypatch.undo()
    compiled: list[object] = []
    monkeypatch.setattr(lanes.LanesBuilder, "_compile", lambda self, shape: compiled.append(shape))
    again = kit.pipeline(source, kit.device("auto"))
    _settled(again, arrays)
    assert again.soft_declined() == state.soft_declined() and not compiled, "the cache remembers"
    monkeypatch.undo()
    kit.run(source, arrays, GROUP, GROUP, "lanes")  # whoever asks for lanes waits, however long it takes
