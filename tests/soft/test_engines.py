"""The engines run hand-written kernels: grids, built-in values, threadgroup memory, atomics, many launches."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from mlx_native_py.softmetal.engines import abi

from .engine_driver import HEAD, Built, build, launch, run, runtime, toolchain

ENGINES = ["flat", "fibers"]

ADD = """
static void add(const device float* a, const device float* b, device float* c, constant uint& n, uint i) {
  if (i < n) c[i] = a[i] + b[i];
}
SOFT_ENTRY((add), SOFT_BUFFER(0), SOFT_BUFFER(1), SOFT_BUFFER(2), SOFT_BUFFER(3), SOFT_IN(thread_position_in_grid))
"""

VALUES = """
static void values(device uint* out, uint3 p, uint3 size, uint2 group, ushort3 own, uint index, uint3 whole,
                   uint3 asked, uint3 groups) {
  uint i = (p.z * size.y + p.y) * size.x + p.x;
  out[i] = group.x * 1000000 + group.y * 100000 + own.x * 10000 + own.y * 1000 + own.z * 100 + index;
  if (i == size.x * size.y * size.z - 1) { out[i + 1] = whole.x; out[i + 2] = asked.x; out[i + 3] = groups.y; }
}
SOFT_ENTRY((values), SOFT_BUFFER(0), SOFT_IN(thread_position_in_grid), SOFT_IN(threads_per_grid),
  SOFT_IN(threadgroup_position_in_grid), SOFT_IN(thread_position_in_threadgroup),
  SOFT_IN(thread_index_in_threadgroup), SOFT_IN(threads_per_threadgroup),
  SOFT_IN(dispatch_threads_per_threadgroup), SOFT_IN(threadgroups_per_grid))
"""

REVERSE = """
static void reverse(const device int* in, device int* out, threadgroup int* shared, uint i, uint t, uint size) {
  SOFT_TG_VAR(int, first, [64]);
  SOFT_TG_VAR(short, second);
  first[t] = in[i];
  if (t == 3) second = 1000;
  shared[t] = in[i] * 2;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = first[size - 1 - t] + shared[0] + second;
}
SOFT_ENTRY((reverse), SOFT_BUFFER(0), SOFT_BUFFER(1), SOFT_THREADGROUP(0), SOFT_IN(thread_position_in_grid),
  SOFT_IN(thread_index_in_threadgroup), SOFT_IN(threads_per_threadgroup))
"""

COUNT = """
static void count(device atomic_uint* n, device atomic_float* f, device atomic_int* low, device atomic_ulong* high,
                  volatile device atomic_int* loops, uint i) {
  atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(f, 0.5f, memory_order_relaxed);
  atomic_fetch_min_explicit(low, -int(i), memory_order_relaxed);
  atomic_max_explicit(high, ulong(i) << 32, memory_order_relaxed);
  int seen = atomic_load_explicit(loops, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(loops, &seen, seen ^ int(i), memory_order_relaxed,
                                                memory_order_relaxed)) {}
}
SOFT_ENTRY((count), SOFT_BUFFER(0), SOFT_BUFFER(1), SOFT_BUFFER(2), SOFT_BUFFER(3), SOFT_BUFFER(4),
  SOFT_IN(thread_position_in_grid))
"""


def _add(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    a, b = rng.random(n, np.float32), rng.random(n, np.float32)
    return [a, b, np.zeros(n, np.float32), np.array([n], np.uint32)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("threads", "group"), [(1, 1), (1000, 32), (100_003, 256), (70_000, 1024)])
def test_every_thread_runs_once(engine: str, threads: int, group: int) -> None:
    buffers = _add(threads)
    run(ADD, buffers, threads, group, engine=engine)
    np.testing.assert_array_equal(buffers[2], buffers[0] + buffers[1])


@pytest.mark.parametrize("engine", ENGINES)
def test_built_in_values_at_the_edges(engine: str) -> None:
    sizes, group = (7, 5, 3), (4, 2, 2)
    out = np.zeros(7 * 5 * 3 + 3, np.uint32)
    run(VALUES, [out], sizes, group, engine=engine)
    for i, value in enumerate(out[:-3]):
        p = (i % 7, i // 7 % 5, i // 35)
        local = [p[d] % group[d] for d in range(3)]
        here = [min(group[d], sizes[d] - p[d] // group[d] * group[d]) for d in range(3)]
        index = (local[2] * here[1] + local[1]) * here[0] + local[0]
        place = p[0] // 4 * 1000000 + p[1] // 2 * 100000 + local[0] * 10000 + local[1] * 1000 + local[2] * 100
        assert value == place + index
    assert list(out[-3:]) == [3, 4, 3]


def test_threadgroup_memory_and_barrier() -> None:
    values = np.arange(150, dtype=np.int32)
    out = np.zeros_like(values)
    run(REVERSE, [values, out], 150, 64, shared=[256])
    groups = [values[:64], values[64:128], values[128:]]
    want = np.concatenate([g[::-1] + g[0] * 2 + 1000 for g in groups])
    np.testing.assert_array_equal(out, want)
    assert build(REVERSE).image.soft_tg_size() == 258


@pytest.mark.parametrize("engine", ENGINES)
def test_atomics_from_many_threads(engine: str) -> None:
    kinds = [np.uint32, np.float32, np.int32, np.uint64, np.int32]
    buffers = [np.zeros(1, kind) for kind in kinds]
    run(COUNT, buffers, 100_000, 256, engine=engine)
    want = [100_000, 50_000, -99_999, 99_999 << 32, np.bitwise_xor.reduce(np.arange(100_000))]
    assert [b[0] for b in buffers] == want


def test_arguments_are_described() -> None:
    image = build(REVERSE).image
    image.soft_arguments.restype = ctypes.POINTER(abi.SoftArgument * image.soft_arguments_count())
    described = [
        (a.index, a.kind, a.data_type, a.size, a.alignment, a.is_pointer) for a in image.soft_arguments().contents
    ]
    assert described == [(0, 0, 29, 4, 4, 1), (1, 0, 29, 4, 4, 1), (0, 1, 29, 4, 4, 1)]


def test_private_arrays_keep_their_lanes_apart() -> None:
    source = """
static void shuffle(device float* out, uint i) {
  float own[8];
  for (uint k = 0; k < 8; k++) own[(i + k) & 7] = float(i * 8 + k);
  out[i] = own[(i * 3) & 7];
}
SOFT_ENTRY((shuffle), SOFT_BUFFER(0), SOFT_IN(thread_position_in_grid))
"""
    out = np.zeros(1024, np.float32)
    run(source, [out], 1024, 256, engine="flat")
    i = np.arange(1024)
    np.testing.assert_array_equal(out, i * 8 + (i * 3 - i) % 8)


def test_flat_kernels_that_wait_are_found_out() -> None:
    compiled = build(REVERSE).compiled
    assert not compiled.waits
    with pytest.raises(OSError, match="soft_flat_kernels_cannot_wait"):
        build(REVERSE, "flat")


def test_launches_run_in_order() -> None:
    buffers = _add(50_000)
    built = build(ADD, "flat")
    chain = [buffers[0], buffers[1], buffers[0], buffers[3]]
    start = buffers[0].copy()
    result = runtime().run([launch(built, chain, 50_000, 128) for _ in range(8)], 30.0)
    want = start
    for _ in range(8):
        want = want + buffers[1]
    np.testing.assert_array_equal(buffers[0], want)
    assert all(a.start_ns <= a.end_ns <= b.start_ns for a, b in zip(result.times, result.times[1:], strict=False))


def test_several_threads_at_once() -> None:
    def work(built: Built, buffers: list[np.ndarray]) -> None:
        for _ in range(20):
            buffers[2][:] = 0
            runtime().run([launch(built, buffers, 20_000, 64)], 30.0)
            np.testing.assert_array_equal(buffers[2], buffers[0] + buffers[1])
        done.append(1)

    done: list[int] = []
    workers = [threading.Thread(target=work, args=(build(ADD, e), _add(20_000))) for e in ENGINES * 2]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(done) == 4


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_runs_kernels() -> None:
    buffers = _add(200_000)
    run(ADD, buffers, 200_000, 64, engine="fibers")
    child = os.fork()
    if child == 0:
        try:
            buffers[2][:] = 0
            run(ADD, buffers, 200_000, 64, engine="fibers")
            os._exit(0 if np.array_equal(buffers[2], buffers[0] + buffers[1]) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_abi_is_the_header_s(tmp_path: Path) -> None:
    lines = ['#include "soft_abi.h"']
    for name, structure in (
        ("soft_launch", abi.SoftLaunch),
        ("soft_fault", abi.Fault),
        ("soft_argument", abi.SoftArgument),
        ("soft_tg_place", abi.ThreadgroupPlace),
    ):
        lines.append(f"static_assert(sizeof({name}) == {ctypes.sizeof(structure)});")
        for field, *_ in structure._fields_:
            offset = getattr(structure, field).offset
            lines.append(f"static_assert(__builtin_offsetof({name}, {field}) == {offset});")
    zones = f"SOFT_TG_ZONE == {abi.THREADGROUP_ZONE} && SOFT_TG_ZONES == {abi.THREADGROUP_ZONES}"
    lines.append(f"static_assert({zones});")
    source = tmp_path / "abi.clcpp"
    source.write_text(HEAD + "\n".join(lines))
    toolchain().run(toolchain().check_syntax(source, toolchain().dialect()))
