"""Simdgroup functions and matrices on fibers: values, divergence, partial simdgroups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .engine_driver import run

LANE = np.arange(32)


def _lanes(code: str, threads: int = 32, group: int = 32, kind: Any = np.int32) -> np.ndarray:
    name = {np.int32: "int", np.float32: "float"}[kind]
    source = f"""
struct four {{ int a; short b; float c[3]; }};
struct large {{ int values[40]; }};
static void k(device {name}* out, uint i, uint t, uint lane) {{ {code} }}
SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_IN(thread_position_in_grid), SOFT_IN(thread_index_in_threadgroup),
  SOFT_IN(thread_index_in_simdgroup))
"""
    out: np.ndarray = np.full(threads, -77, kind)
    run(source, [out], threads, group)
    return out


def _sum(condition: np.ndarray) -> int:
    return int(LANE[condition].sum())


EVEN = LANE % 2 == 0
CASES = {
    "sum": ("out[i] = simd_sum(int(lane));", np.full(32, 496)),
    "vector": ("int3 v = simd_sum(int3(lane, 1, 2)); out[i] = v.x + v.y * v.z;", np.full(32, 496 + 2048)),
    "half": ("out[i] = int(simd_sum(half(lane)));", np.full(32, 496)),
    "half2": ("out[i] = int(simd_max(half2(float2(lane, 0))).x);", np.full(32, 31)),
    "short2": ("out[i] = simd_sum(short2(lane, 1)).x;", np.full(32, 496)),
    "min-max": ("out[i] = simd_min(int(lane) - 5) * 100 + simd_max(lane);", np.full(32, -469)),
    "bits": ("out[i] = simd_and(lane | 64u) + simd_or(lane) * 2 + simd_xor(lane) * 1000;", np.full(32, 64 + 62)),
    "inclusive": ("out[i] = simd_prefix_inclusive_sum(int(lane));", LANE.cumsum()),
    "exclusive": ("out[i] = simd_prefix_exclusive_sum(int(lane));", LANE.cumsum() - LANE),
    "product": ("out[i] = simd_prefix_exclusive_product(lane < 4 ? 2 : 1);", np.minimum(2**LANE, 16)),
    "shuffle": ("out[i] = simd_shuffle(int(lane) * 10, ushort((lane * 7) % 32));", LANE * 7 % 32 * 10),
    "up": ("out[i] = simd_shuffle_up(int(lane), 3);", np.where(LANE < 3, LANE, LANE - 3)),
    "down": ("out[i] = simd_shuffle_down(int(lane), 3);", np.where(LANE > 28, LANE, LANE + 3)),
    "rotate": ("out[i] = simd_shuffle_rotate_up(int(lane), 5);", (LANE - 5) % 32),
    "fill-up": (
        "out[i] = simd_shuffle_and_fill_up(int(lane), int(lane) + 100, 3, 8);",
        np.where(LANE % 8 < 3, LANE // 8 * 8 + (LANE - 3) % 8 + 100, LANE - 3),
    ),
    "fill-down": (
        "out[i] = simd_shuffle_and_fill_down(int(lane), int(lane) + 100, 2);",
        np.where(LANE > 29, LANE - 30 + 100, LANE + 2),
    ),
    "struct": (
        """four f = {int(lane), short(lane * 2), {1, float(lane), 3}};
        f = soft::from_lane(f, lane ^ 1, soft::mark()); out[i] = f.a + f.b + int(f.c[1]);""",
        (LANE ^ 1) * 4,
    ),
    "large-struct": (
        """large f; for (int n = 0; n < 40; n++) f.values[n] = int(lane) * n;
        f = soft::from_lane(f, lane < 31 ? lane + 1 : lane, soft::mark()); out[i] = f.values[39];""",
        np.where(LANE == 31, 31, LANE + 1) * 39,
    ),
    "quad": ("out[i] = quad_sum(int(lane)) + quad_shuffle_xor(int(lane), 3);", LANE // 4 * 16 + 6 + (LANE ^ 3)),
    "ballot": ("out[i] = int((simd_vote::vote_t)simd_ballot(lane % 3 == 0));", np.full(32, 0x49249249)),
    "votes": ("out[i] = simd_all(lane < 32) * 2 + simd_any(lane == 40);", np.full(32, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    code, want = CASES[name]
    np.testing.assert_array_equal(_lanes(code), want)


DIVERGENT = {
    "both-branches": (
        "if (lane % 2 == 0) out[i] = simd_sum(int(lane)); else out[i] = simd_sum(int(lane));",
        np.where(EVEN, _sum(EVEN), _sum(~EVEN)),
    ),
    "reconverges": ("int v = 0; if (lane < 9) v = simd_sum(1); out[i] = simd_sum(v);", np.full(32, 81)),
    "trip-counts": (
        """int v = 0; SOFT_LOOP for (uint n = 0; n < lane % 3; n++) SOFT_ROUND v += simd_sum(1);
        out[i] = v + simd_sum(100);""",
        3200 + np.array([0, 21, 31])[LANE % 3],
    ),
    "continue": (
        """int v = 0;
        SOFT_LOOP for (uint n = 0; n < 4; n++) SOFT_ROUND { if ((lane + n) % 2) continue; v += simd_sum(1); }
        out[i] = v;""",
        np.full(32, 32),
    ),
    "branch-in-loop": (
        """int v = 0; uint n = 0;
        SOFT_LOOP while (n < 3) SOFT_ROUND { v += simd_sum(1); if (lane & 1) v += simd_sum(100); n++; } out[i] = v;""",
        np.where(EVEN, 96, 96 + 4800),
    ),
    "nested-loops": (
        """int v = 0; SOFT_LOOP for (uint a = 0; a < 2; a++) SOFT_ROUND {
          SOFT_LOOP for (uint b = 0; b < lane % 2; b++) SOFT_ROUND v += simd_sum(1);
          v += simd_sum(1000); } out[i] = v;""",
        np.where(EVEN, 64000, 64032),
    ),
    "return": ("if (lane >= 12) { out[i] = -5; return; } out[i] = simd_sum(1);", np.where(LANE < 12, 12, -5)),
    "do-while": (
        "int v = 0; uint n = 0; SOFT_LOOP do SOFT_ROUND { v += simd_sum(1); } while (++n < lane % 2 + 1); out[i] = v;",
        np.where(EVEN, 32, 48),
    ),
}


@pytest.mark.parametrize("name", DIVERGENT)
def test_divergence(name: str) -> None:
    code, want = DIVERGENT[name]
    np.testing.assert_array_equal(_lanes(code), want)


def test_early_return_before_a_barrier() -> None:
    code = """SOFT_TG_VAR(int, s, [96]); s[t] = int(t); if (t >= 50) { out[i] = -1; return; }
    threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = s[49 - t];"""
    t = np.arange(96)
    np.testing.assert_array_equal(_lanes(code, 96, 96), np.where(t < 50, 49 - t, -1))


def test_partial_simdgroups() -> None:
    want = np.where(np.arange(40) < 32, 496, sum(range(32, 40)))
    np.testing.assert_array_equal(_lanes("out[i] = simd_sum(int(i));", 40, 40), want)


def _matrices(elements: bool, kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    look = (
        "out[64 + lane * 2] = c.thread_elements()[0]; out[65 + lane * 2] = c.thread_elements().y;" if elements else ""
    )
    source = f"""
static void k(const device {kind}* a, const device {kind}* b, device float* out, uint lane) {{
  simdgroup_matrix<{kind}, 8, 8> ma, mb;
  simdgroup_matrix<float, 8, 8> c = make_filled_simdgroup_matrix<float, 8, 8>(2.0f);
  simdgroup_load(ma, a, 16, ulong2(3, 1)); simdgroup_load(mb, b, 8, 0, true);
  simdgroup_multiply_accumulate(c, ma, mb, c);
  simdgroup_float8x8 unit(1.0f); c = c * unit;
  simdgroup_store(c, out, 8);
  {look}
}}
SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_BUFFER(1), SOFT_BUFFER(2), SOFT_IN(thread_index_in_simdgroup))
"""
    out = np.zeros(128, np.float32)
    run(source, [a, b, out], 32, 32)
    return out


@pytest.mark.parametrize("elements", [False, True])
@pytest.mark.parametrize("kind", ["float", "half"])
def test_matrices(elements: bool, kind: str) -> None:
    rng = np.random.default_rng(3)
    dtype = {"float": np.float32, "half": np.float16}[kind]
    a, b = rng.random((16, 16)).astype(dtype), rng.random((8, 8)).astype(dtype)
    out = _matrices(elements, kind, a, b)
    want = a[1:9, 3:11].astype(np.float32) @ b.T.astype(np.float32) + 2
    np.testing.assert_allclose(out[:64].reshape(8, 8), want, rtol=1e-5)
    if elements:
        quad = LANE // 4
        row, column = (quad & 4) + LANE // 2 % 4, (quad & 2) * 2 + LANE % 2 * 2
        np.testing.assert_array_equal(out[64::2], out[:64].reshape(8, 8)[row, column])
        np.testing.assert_array_equal(out[65::2], out[:64].reshape(8, 8)[row, column + 1])
