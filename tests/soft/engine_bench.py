"""What waiting costs for each thread, and what simdgroup matrices reach; run by hand as a module, from tests/."""

from __future__ import annotations

import numpy as np

from .engine_driver import Built, build, launch, runtime

ROUNDS = 1000
WAITS = {
    "simd_sum": "x = simd_sum(x) * 0.03f;",
    "simd_shuffle_xor": "x = simd_shuffle_xor(x, 1) + 1;",
    "simd_prefix_inclusive_sum": "x = simd_prefix_inclusive_sum(x) * 0.05f;",
    "threadgroup_barrier": "threadgroup_barrier(mem_flags::mem_threadgroup);",
}
MATMUL = """
static void k(const device float* a, const device float* b, device float* c, uint2 g, ushort s) {{
  uint row = g.y * 64 + s / 2 * 32, column = g.x * 64 + s % 2 * 32;
  simdgroup_float8x8 sum[4][4], x[4], y[4];
  for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) sum[i][j] = simdgroup_float8x8(0.0f);
  for (uint k = 0; k < 512; k += 8) {{
    for (int i = 0; i < 4; i++) simdgroup_load(x[i], a + (row + 8 * i) * 512 + k, 512);
    for (int i = 0; i < 4; i++) simdgroup_load(y[i], b + k * 512 + column + 8 * i, 512);
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++) simdgroup_multiply_accumulate(sum[i][j], x[i], y[j], sum[i][j]);
  }}
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) simdgroup_store(sum[i][j], c + (row + 8 * i) * 512 + column + 8 * j, 512);
  {look}
}}
SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_BUFFER(1), SOFT_BUFFER(2), SOFT_IN(threadgroup_position_in_grid),
  SOFT_IN(simdgroup_index_in_threadgroup))
"""


def best_ns(built: Built, buffers: list[np.ndarray], threads: tuple[int, ...], group: int, repeats: int = 9) -> int:
    work = launch(built, buffers, threads, group)
    runs = [runtime().run([work], 60.0).times[0] for _ in range(repeats)]
    return min(run.end_ns - run.start_ns for run in runs)


def waits() -> None:
    """One threadgroup on one core."""
    values = np.ones(1024, np.float32)
    for name, code in WAITS.items():
        source = f"""
static void k(device float* out, uint i) {{
  float x = out[i];
  for (uint n = 0; n < {ROUNDS}; n++) {{ {code} }}
  out[i] = x;
}}
SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_IN(thread_position_in_grid))
"""
        costs = [best_ns(build(source), [values], (group,), group) / ROUNDS / group for group in (32, 256, 1024)]
        print(f"{name:28}" + "".join(f"{cost:8.2f} ns" for cost in costs) + "   (32, 256, 1024 threads)")


def matrices() -> None:
    """512 x 512 x 512 on all cores, whole and by elements."""
    rng = np.random.default_rng(1)
    a, b, c = (rng.random((512, 512), np.float32) for _ in range(3))
    for name, look in (("whole", ""), ("elements", "if (row > 9999) c[0] = sum[0][0].thread_elements()[0];")):
        ns = best_ns(build(MATMUL.format(look=look)), [a, b, c], (8 * 128, 8), 128, 5)
        print(f"matmul 512^3, {name:9} {ns / 1e6:8.2f} ms {2 * 512**3 / ns:8.2f} GFLOP/s")


if __name__ == "__main__":
    waits()
    matrices()
