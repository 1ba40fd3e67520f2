"""Atomic functions in device and threadgroup memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import Program, zeros

THREADS = 2048
_LANES = np.arange(THREADS)
_RELAXED = "memory_order_relaxed"

# Operation, argument given thread i, start value, value after all threads.
_FETCH: tuple[tuple[str, str, int, int], ...] = (
    ("add", "i", 5, 5 + int(_LANES.sum())),
    ("sub", "1", 4000, 4000 - THREADS),
    ("min", "i + 3", 99999, 3),
    ("max", "i + 3", 1, THREADS + 2),
    ("and", "~(1 << (i % 16))", 0x7FFFFFFF, 0x7FFF0000),
    ("or", "1 << (i % 20)", 0, (1 << 20) - 1),
    ("xor", "i", 77, 77 ^ int(np.bitwise_xor.reduce(_LANES))),
)


def _fetch(scalar: str, space: str) -> Program:
    """Every fetch operation on its own counter."""
    dtype = np.int32 if scalar == "int" else np.uint32
    start = np.array([row[2] for row in _FETCH], dtype=dtype)
    where = "c" if space == "device" else "t"
    lines = [
        f"  atomic_fetch_{op}_explicit(&{where}[{n}], {scalar}({argument}), {_RELAXED});"
        for n, (op, argument, _, _) in enumerate(_FETCH)
    ]
    count = len(_FETCH)
    if space == "device":
        body = (
            f"kernel void k(device atomic_{scalar}* c [[buffer(0)]], uint i [[thread_position_in_grid]]) {{\n"
            + "\n".join(lines)
            + "\n}"
        )
        group, threads = 128, THREADS
    else:
        body = f"""kernel void k(device {scalar}* c [[buffer(0)]], uint i0 [[thread_index_in_threadgroup]]) {{
  threadgroup atomic_{scalar} t[{count}];
  if (i0 < {count}) atomic_store_explicit(&t[i0], c[i0], {_RELAXED});
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = i0; i < {THREADS}; i += 256) {{
{chr(10).join(lines)}
  }}
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i0 < {count}) c[i0] = atomic_load_explicit(&t[i0], {_RELAXED});
}}"""
        group, threads = 256, 256
    results = {op: (0, np.array([end]), n) for n, (op, _, _, end) in enumerate(_FETCH)}
    return Program(f"atomic-{scalar}-{space}", body, [start], results, threads=threads, group=group)


def _tickets() -> Program:
    """Values returned by fetch_add are a permutation; exchange and compare_exchange hand each value on once."""
    body = f"""
kernel void k(device atomic_uint* c, device uint* seen, device atomic_uint* sum, device atomic_uint* spin, uint i
    [[thread_position_in_grid]]) {{
  uint ticket = atomic_fetch_add_explicit(&c[0], 1u, {_RELAXED});
  seen[ticket] = 1;
  uint old = atomic_exchange_explicit(&c[1], i + 1, {_RELAXED});
  atomic_fetch_add_explicit(&sum[0], old, {_RELAXED});
  uint expected = atomic_load_explicit(&spin[0], {_RELAXED});
  while (!atomic_compare_exchange_weak_explicit(&spin[0], &expected, expected + 3, {_RELAXED}, {_RELAXED})) {{}}
}}"""
    args = [zeros(2, np.uint32), zeros(THREADS, np.uint32), zeros(1, np.uint32), zeros(1, np.uint32)]
    results = {
        "fetch_add-result": (1, np.ones(THREADS)),
        "fetch_add": (0, np.array([THREADS])),
        "compare_exchange": (3, np.array([3 * THREADS])),
    }
    return Program("atomic-tickets", body, args, results, threads=THREADS, group=64)


def _exchanged() -> Program:
    """In one thread the results of exchange, load, store and compare_exchange are known exactly."""
    body = f"""
kernel void k(device atomic_int* c, device int* out) {{
  out[0] = atomic_exchange_explicit(c, 9, {_RELAXED});
  out[1] = atomic_load_explicit(c, {_RELAXED});
  atomic_store_explicit(c, -4, {_RELAXED});
  int e = 1;
  out[2] = atomic_compare_exchange_weak_explicit(c, &e, 8, {_RELAXED}, {_RELAXED});
  out[3] = e;
  bool done = false;
  for (int n = 0; n < 100 && !done; n++) done = atomic_compare_exchange_weak_explicit(c, &e, 8, {_RELAXED}, {_RELAXED});
  out[4] = done;
  out[5] = atomic_fetch_min_explicit(c, -7, {_RELAXED});
  out[6] = atomic_fetch_max_explicit(c, 70, {_RELAXED});
  out[7] = atomic_fetch_and_explicit(c, 6, {_RELAXED});
  out[8] = atomic_fetch_or_explicit(c, 9, {_RELAXED});
  out[9] = atomic_fetch_xor_explicit(c, 3, {_RELAXED});
  out[10] = atomic_fetch_sub_explicit(c, 5, {_RELAXED});
  out[11] = atomic_load_explicit(c, {_RELAXED});
}}"""
    want = np.array([1, 9, 0, -4, 1, 8, -7, 70, 6, 15, 12, 7])
    results = {f"step-{n}": (1, want[n : n + 1], n) for n in range(len(want))}
    return Program("atomic-single", body, [np.array([1], np.int32), zeros(12, np.int32)], results, threads=1, group=1)


def _floats() -> Program:
    """Float add and subtract, exchange and load; bool and the atomic<T> spelling."""
    body = f"""
kernel void k(device atomic_float* f, device atomic<float>* g, device atomic_bool* b, device float* out, uint i
    [[thread_position_in_grid]]) {{
  atomic_fetch_add_explicit(&f[0], 0.5f, {_RELAXED});
  atomic_fetch_sub_explicit(&f[1], 0.25f, {_RELAXED});
  atomic_fetch_add_explicit(&g[0], float(i % 4), {_RELAXED});
  if (i == 7) {{
    atomic_store_explicit(&b[0], true, {_RELAXED});
    atomic_exchange_explicit(&f[2], 12.5f, {_RELAXED});
    out[0] = atomic_load_explicit(&f[2], {_RELAXED});
    out[1] = atomic_load_explicit(&b[0], {_RELAXED}) ? 1.0f : 0.0f;
  }}
}}"""
    args = [zeros(3), zeros(1), np.zeros(1, np.bool_), zeros(2)]
    results: dict[str, tuple[int, Any] | tuple[int, Any, int]] = {
        "add": (0, np.array([THREADS / 2])),
        "sub": (0, np.array([-THREADS / 4]), 1),
        "atomic<float>": (1, np.array([THREADS * 1.5])),
        "bool": (2, np.array([True])),
        "exchange": (3, np.array([12.5, 1.0])),
    }
    return Program("atomic-float", body, args, results, threads=THREADS, group=256)


def _longs() -> Program:
    """64-bit minimum and maximum, which return nothing."""
    body = f"""
kernel void k(device atomic_ulong* c [[buffer(0)]], uint i [[thread_position_in_grid]]) {{
  atomic_max_explicit(&c[0], (ulong(i) << 33) + 1, {_RELAXED});
  atomic_min_explicit(&c[1], (ulong(i) << 33) + 2, {_RELAXED});
}}"""
    start = np.array([0, 2**63], np.uint64)
    want = np.array([((THREADS - 1) << 33) + 1, 2], np.uint64)
    return Program(
        "atomic-ulong", body, [start], {"max": (0, want[:1]), "min": (0, want[1:], 1)}, threads=THREADS, group=64
    )


def _fences() -> Program:
    """atomic_thread_fence and a threadgroup counter that finds the last arrival."""
    body = f"""
kernel void k(device uint* data [[buffer(0)]], device atomic_uint* arrived [[buffer(1)]], device uint* out
    [[buffer(2)]],
              uint t [[thread_index_in_threadgroup]], uint g [[threadgroup_position_in_grid]], uint n
                  [[threadgroups_per_grid]]) {{
  threadgroup bool last;
  if (t == 0) {{
    data[g] = g + 1;
    atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
    last = atomic_fetch_add_explicit(arrived, 1u, {_RELAXED}) == n - 1;
  }}
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  if (last && t == 0) {{
    atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
    uint total = 0;
    for (uint k = 0; k < n; k++) total += ((volatile device uint*)data)[k];
    out[0] = total;
  }}
}}"""
    args = [zeros(50, np.uint32), zeros(1, np.uint32), zeros(1, np.uint32)]
    return Program("atomic-fence", body, args, {"last-group": (2, np.array([50 * 51 // 2]))}, threadgroups=50, group=32)


def all_programs() -> list[Program]:
    fetches = [_fetch(scalar, space) for scalar in ("int", "uint") for space in ("device", "threadgroup")]
    return [*fetches, _tickets(), _exchanged(), _floats(), _longs(), _fences()]
