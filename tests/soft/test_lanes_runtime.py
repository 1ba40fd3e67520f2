"""The runtime of the lanes engine, driven by entries written in C++ in place of vectorised kernels."""

from __future__ import annotations

import ctypes
import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest

from mlx_native_py.softmetal.engines import KernelFault, abi

from .engine_driver import HEAD, ZEROS, build, runtime, toolchain

ENTRY = """
#include "%s/soft_abi.h"
extern "C" void soft_lanes_barrier(soft_lane *, soft_u32);
extern "C" __attribute__((visibility("default")))
void soft_lanes_entry(soft_group *group, soft_lane *fiber, soft_u32 simdgroup) {
  soft_u32 *out = (soft_u32 *)group->launch->buffers[0], *shared = (soft_u32 *)group->tg;
  soft_u32 first = group->position[0] * group->launch->group[0] + 32 * simdgroup;
  (void)out, (void)shared, (void)first;
  %s
}
"""
ROUNDS = """
  for (soft_u32 round = 0; round < 5; round++) {
    shared[simdgroup] = 100 * round + simdgroup;
    soft_lanes_barrier(fiber, 2);
    soft_u32 sum = 0;
    for (soft_u32 i = 0; i < (group->count + 31) / 32; i++) sum += shared[i];
    soft_lanes_barrier(fiber, 2);
    for (soft_u32 i = 0; i < 32; i++) out[first + i] += sum;
  }
"""
EDGE = (
    HEAD
    + """
void edge(device uint *out, uint i) { out[i] = 7; }
SOFT_ENTRY((edge), SOFT_BUFFER(0), SOFT_IN(thread_position_in_grid))
"""
)


@functools.cache
def lanes(body: str) -> ctypes.CDLL:
    runtime()
    include = Path(__file__).parents[2] / "mlx_native_py" / "softmetal" / "include"
    with tempfile.TemporaryDirectory() as folder:
        source, target, image = Path(folder, "k.cpp"), Path(folder, "k.o"), Path(folder, "k.so")
        source.write_text(ENTRY % (include, body))
        toolchain().run(toolchain().compile_runtime(source, target))
        toolchain().run(toolchain().link([target], image))
        return ctypes.CDLL(str(image))


def launch(body: str, out: np.ndarray, threads: int, group: int) -> abi.SoftLaunch:
    result = abi.SoftLaunch()
    result.buffers[:] = [ZEROS.ctypes.data] * abi.SLOTS
    result.buffers[0], result.lengths[0] = out.ctypes.data, out.nbytes
    result.tg_bytes = 128
    result.threads[:], result.group[:], result.groups[:] = (threads, 1, 1), (group, 1, 1), (-(-threads // group), 1, 1)
    result.engine, result.stack_bytes = abi.LANES, 4096
    result.entry = ctypes.cast(lanes(body).soft_lanes_entry, ctypes.c_void_p).value
    return result


@pytest.mark.parametrize("group", [32, 64, 96, 1024])
def test_simdgroups_take_turns_at_barriers(group: int) -> None:
    out = np.zeros(4 * group, np.uint32)
    runtime().run([launch(ROUNDS, out, out.size, group)], 10.0)
    simdgroups = group // 32
    assert set(out) == {sum(100 * r * simdgroups + simdgroups * (simdgroups - 1) // 2 for r in range(5))}


def test_a_simdgroup_that_ended_is_not_waited_for() -> None:
    body = "if (simdgroup % 2) return;" + ROUNDS.replace("i++) sum", "i += 2) sum")
    out = np.zeros(256, np.uint32)
    runtime().run([launch(body, out, 256, 128)], 10.0)
    even = sum(200 * r + 2 for r in range(5))
    assert out.reshape(-1, 2, 32).max(axis=2).tolist() == [[even, 0]] * 4


@pytest.mark.parametrize("engine", ["flat", "fibers"])
def test_groups_that_the_edge_cuts_run_on_another_engine(engine: str) -> None:
    out = np.zeros(160, np.uint32)
    edge = build(EDGE, engine)
    result = launch("for (soft_u32 i = 0; i < 32; i++) out[first + i] = 1 + simdgroup;", out, 150, 64)
    result.edge_entry = ctypes.cast(edge.image.soft_entry_point, ctypes.c_void_p).value
    result.edge_engine = abi.FLAT if engine == "flat" else abi.FIBERS
    result.stack_bytes = max(result.stack_bytes, edge.compiled.stack_bytes)
    runtime().run([result], 10.0)
    assert out.tolist() == ([1] * 32 + [2] * 32) * 2 + [7] * 22 + [0] * 10


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("if (group->position[0] == 2) *(volatile int *)8 = 1;", "bad address"),
        ("if (group->position[0] == 2) __builtin_trap();", "illegal instruction"),
        ("if (group->position[0] == 2) __builtin_debugtrap();", "illegal instruction"),
        ("if (group->position[0] == 2) for (volatile int i = 0;; i++) {}", "timeout"),
    ],
)
def test_faults_name_the_group(body: str, kind: str) -> None:
    out = np.zeros(256, np.uint32)
    with pytest.raises(KernelFault) as caught:
        runtime().run([launch(body, out, 256, 64)], 0.3)
    assert (caught.value.kind, caught.value.group, caught.value.thread) == (kind, (2, 0, 0), None)
    runtime().run([launch(ROUNDS, out, 256, 64)], 10.0)
    assert out.any()
