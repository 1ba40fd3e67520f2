"""What the pass makes of control flow, shapes and simdgroup functions: the same as the fiber engine, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from mlx_native_py.softmetal.engines.lanes import vectorise
from mlx_native_py.softmetal.engines.lanes.analysis import regions, shape
from mlx_native_py.softmetal.engines.lanes.analysis.intrinsics import position

from . import lanes_kit as kit

HEAD = """kernel void k(device uint *out, device const uint *in, uint2 at [[thread_position_in_grid]],
  uint2 all [[threads_per_grid]],
  uint t [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
  uint simd [[simdgroup_index_in_threadgroup]], uint2 size [[threads_per_threadgroup]]) {
  const uint n = size.x;
  uint i = at.x + at.y * all.x, v = in[i], w = 0;
"""
BODIES = {
    "nested branches": """if (v & 1) { if (v & 2) w = v * 3; else w = v + 7; w ^= 5;
        } else if (lane < 9) w = simd_sum(v);""",
    "waits in a do": """uint k = 3 + (v & 1); do { if (v & 2) w += simd_sum(k); else w ^= simd_max(v + k);
        } while (--k > (lane & 1));""",
    "trip count of a lane": "for (uint k = 0; k < (v & 15); k++) w += in[(i + k) & 255] ^ k;",
    "value of the round a lane left in": """uint k = 0; while (((v >> k) & 3) != 2 && k < 30) k++; w = k;
        w += simd_max(k);""",
    "break and continue": """for (uint k = 0; k < 20; k++) {
        if ((k ^ lane) % 7 == 3) continue;
        if (k * lane > 200) break;
        w += k + simd_sum(k & lane); }""",
    "loops in loops": """for (uint a = 0; a < (lane & 3) + 1; a++) {
        for (uint b = 0; b < (v & 3); b++) { w = w * 3 + a * b; if (w & 64) break; }
        w += simd_sum(w & 15); }""",
    "early return": "if (v % 5 == 0) { out[i] = 77; return; } w = simd_sum(v & 255);",
    "return in a loop": """for (uint k = 0; k < 8; k++) { if (((v >> k) & 1) == 0 && k > 4) { out[i] = k;
        return; } w += k * v; }""",
    "switch": """switch (v % 6) { case 0: w = 1; break; case 1: w = v; case 2: w += simd_sum(1u); break;
        case 4: for (uint k = 0; k < lane; k++) w += k; break; default: w = 9; }""",
    "uniform switch": """switch (in[simd & 1] & 3) { case 0: w = v; break; case 1: w = v * 2; break;
        default: w = lane; }""",
    "division by what idle lanes have": """if (v & 3) { w = 1000 / (v & 3) + 777 % (v & 3);
        w += uint(-77 / int(v & 3)); }""",
    "quotients": """for (uint k = 0; k < 32; k++) { uint a = v >> (k & 7), b = (in[(i + k) & 255] >> k) | 1;
        w = w * 31 + a / b + a % b; uint c = b * (a / b) - 1; w ^= c / b + c % b; int d = int(b | 3);
        w += uint(int(a) / d) ^ uint(int(a) % d) ^ uint(int(c) / d); if (k & lane & 1) w += a / (b + 5 > b ? b + 5 : 3);
        w += v / (in[k] | 1) ^ v % (in[k] | 1); }""",
    "private array": """uint a[9]; for (uint k = 0; k < 9; k++) a[k] = v >> k; a[v % 9] = 3;
        w = a[(v / 9) % 9] + a[lane % 9];""",
    "reversed index": "w = in[200 - t] + in[255u - 3 * lane] + in[(64 - lane) * 2] + in[uint(-int(lane) * 4 + 130)];",
    "wrapped index": "if (i >= 40) w = in[i - 40]; w += in[(i - 17) & 255];",
    "index of 8 bits": "uchar c = uchar(t * 8); w = in[uchar(c + 100)] + in[uchar(c - 3)];",
    "64 bits": "ulong x = ulong(v) * 0x123456789ul; w = uint(x >> 21) + uint(x % (v | 1)); w += uint(long(x) >> 40);",
    "small types": "short s = short(v); char c = char(v >> 3); w = uint(s * c) + uint(ushort(s) >> 2) + uint(c < 0);",
    "ballot and votes": """if (v & 1) { w = uint((simd_vote::vote_t)simd_ballot(v & 2));
        w += simd_any(v & 4) ? 100 : 0; }
        w += simd_all(v > lane) + simd_is_first() * 5;
        w += popcount(uint((simd_vote::vote_t)simd_active_threads_mask()));""",
    "folds under a mask": """if (lane % 3) { w = simd_max(v) ^ simd_min(v) ^ simd_and(v | 0xff)
        ^ simd_or(v & 0xff00) ^ simd_xor(v);
        w += simd_product(v & 3) + simd_prefix_inclusive_sum(v & 7) + quad_sum(v & 31); }""",
    "lanes that broadcast": "if (lane > 4) w = simd_broadcast_first(v); w += simd_broadcast(v, ushort(7));",
    "sums of floats": """float f = float(v) * 1e-3f; w = as_type<uint>(simd_sum(f));
        if (v & 1) w ^= as_type<uint>(simd_sum(f));""",
    "extremes of floats": """float f = float(int(v)); w = as_type<uint>(simd_max(f));
        if (v & 2) w ^= as_type<uint>(simd_min(f));""",
    "uniform loop in a branch": """if (v & 1) for (uint k = 0; k < (in[0] & 7); k++) { w += in[k] * v;
        w ^= simd_sum(w & 3); }""",
    "meetings in two branches": """switch (v & 3) { case 0: w = simd_prefix_inclusive_sum(v & 15); break;
        default: w = quad_sum(v & 255); } if (lane & 1) w += simd_product(v & 3); else w ^= quad_max(v);""",
    "the same fold by all and by some": """w = simd_sum(v & 255); if (v & 1) w += simd_sum(v & 255) * 3;
        for (uint k = 0; k < (v & 3); k++) w += simd_sum(v & 255) * 7;""",
    "choice": "w = (v & 1 ? lane : v) + (lane < 12 ? t : 3u) + (in[0] & 1 ? lane : 5u);",
    "pointers": "device const uint *p = v & 1 ? in + lane : in + (v & 31); w = p[0] + p[3]; p += lane; w += *p;",
    "conversions": """float f = float(v) / 3.0f; half h = half(float(v & 1023));
        w = uint(f) + uint(h * half(2.0f)) + uint(int(-f) >> 3);""",
}
WHOLE = {
    "shuffles": """w = simd_shuffle(v, ushort(v & 31)) + simd_shuffle_xor(v, 13) + simd_shuffle_up(v, 3)
        + simd_shuffle_down(v, 9)
        + simd_shuffle_rotate_up(v, 5) + simd_shuffle_and_fill_down(v, 1u, 4) + quad_shuffle(v, ushort(v & 3));""",
    "shuffles of other sizes": """w = simd_shuffle_xor(uchar(v), 3) + simd_shuffle(ushort(v), ushort(lane / 2))
        + (simd_shuffle(uint2(v << 7, v), ushort(v & 31)).x >> 3) + uint(simd_shuffle_down(half(v & 255), 2));""",
    "barriers": """threadgroup uint shared[1024]; for (uint k = 0; k < 3; k++) { shared[t] = v + k;
        threadgroup_barrier(mem_flags::mem_threadgroup); w += shared[(t * 7 + k) % n];
        threadgroup_barrier(mem_flags::mem_threadgroup); }""",
    "threadgroup atomics": """threadgroup atomic_uint bins[16], most;
        if (t == 0) atomic_store_explicit(&most, 0, memory_order_relaxed);
        if (t < 16) atomic_store_explicit(&bins[t], 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (v & 1) atomic_fetch_add_explicit(&bins[v >> 4 & 15], 1, memory_order_relaxed);
        atomic_fetch_max_explicit(&most, v & 1023, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        w = atomic_load_explicit(&bins[t & 15], memory_order_relaxed)
        ^ atomic_load_explicit(&most, memory_order_relaxed);""",
}
GROUPS = [(64, 1, 1), (40, 1, 1), (8, 8, 1), (12, 4, 1), (5, 1, 1)]


def _program(body: str) -> str:
    return f"{HEAD}{body}\n out[i] += v * 31 + w; }}"


def _compare(body: str, group: kit.Size) -> None:
    threads = (2 * group[0], group[1], group[2])
    count = threads[0] * threads[1]
    inputs = np.random.default_rng(7).integers(0, 1 << 32, max(256, count), dtype=np.uint32)
    kit.compare(_program(body), [np.zeros(count, np.uint32), inputs], threads, group)


@pytest.mark.parametrize("group", GROUPS[:2], ids=str)
@pytest.mark.parametrize("name", BODIES)
def test_as_on_fibers(name: str, group: kit.Size) -> None:
    _compare(BODIES[name], group)


@pytest.mark.parametrize("group", GROUPS[2:], ids=str)
def test_all_at_once_in_other_shapes(group: kit.Size) -> None:
    safe = [body for name, body in BODIES.items() if "return" not in body]
    _compare("".join(f"{{ {body} }}\n" for body in safe), group)


def test_blocks_of_large_kernels_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where copies for all lanes together would be too many, lanes that agree run as some of them do."""
    monkeypatch.setattr(regions, "_MOST_TWICE", 0)
    monkeypatch.setattr(vectorise, "_MOST_INLINED", 0)
    safe = [body for body in (*BODIES.values(), *WHOLE.values()) if "return" not in body]
    _compare(kit.fresh("".join(f"{{ {body} }}\n" for body in safe)), (64, 1, 1))


def test_masked_loads_stay_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old value lives on behind the branch: LLVM took the mask from such loads, which read before the buffer."""
    monkeypatch.setattr(regions, "_MOST_TWICE", 0)
    source = kit.fresh(
        "kernel void k(device uint *out, device const uint *in, uint i [[thread_position_in_grid]]) {"
        "uint a = in[i], q = a; if (i >= 31u) a += in[i - 31u]; out[i] = a ^ (q << 24); }"
    )
    numbers = np.arange(1024, dtype=np.uint32)
    out, _ = kit.compare(source, [np.zeros(128, np.uint32), numbers], (128, 1, 1), (64, 1, 1))
    i = numbers[:128]
    np.testing.assert_array_equal(out, np.where(i >= 31, 2 * i - 31, i) ^ (i << 24))


@pytest.mark.parametrize("kind", ["int", "uint", "short", "ushort", "char", "uchar"])
def test_floats_become_integers_as_on_fibers(kind: str) -> None:
    """Saturated, towards zero, 0 for NaN, from each type of floats; with vectors all the way."""
    edges = [0.0, -0.0, 0.5, -0.5, np.nan, np.inf, -np.inf, 1e-40, 3e38, -3e38]
    edges += [
        s * v for p in (7, 8, 15, 16, 31, 32) for v in (2.0**p - 1, 2.0**p - 0.5, 2.0**p, 2.0**p + 1) for s in (1, -1)
    ]
    floats = np.resize(np.array(edges, np.float32), 128)
    body = (
        "out[3 * i] = int({0}(x[i])); out[3 * i + 1] = int({0}(half(x[i]))); out[3 * i + 2] = int({0}(bfloat(x[i])));"
    )
    source = (
        "kernel void k(device int *out, device const float *x, uint i [[thread_position_in_grid]]) { if (i != 77u) {"
        + body.format(kind) + "} }"
    )  # fmt: skip
    out, _ = kit.compare(source, [np.zeros(384, np.int32), floats], (128, 1, 1), (64, 1, 1))
    bits = {"int": 32, "short": 16, "char": 8}[kind.removeprefix("u")]
    least, most = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    whole = np.clip(np.nan_to_num(floats.astype(np.float64), nan=0), least, most).astype(np.int64).astype(np.int32)
    whole[77] = 0
    np.testing.assert_array_equal(out[::3], whole)


@pytest.mark.parametrize("name", WHOLE)
def test_whole_simdgroups_as_on_fibers(name: str) -> None:
    _compare(WHOLE[name], (64, 1, 1))


@pytest.mark.parametrize(
    "size", [(64, 1, 1), (16, 16, 1), (8, 4, 4), (4, 2, 3), (48, 2, 1), (2, 64, 1), (3, 5, 9)], ids=str
)
def test_shapes_of_positions_are_true(size: kit.Size) -> None:
    count = size[0] * size[1] * size[2]
    simdgroups = [range(first, first + 32) for first in range(0, count, 32)]
    steps = {"x": (1, size[0]), "y": (size[0], size[1]), "z": (size[0] * size[1], size[2])}
    for axis, (step, length) in steps.items():
        result = position(axis, size)
        for lanes in simdgroups if not result.varying else ():
            base = lanes[0] // step % length
            assert result.base in (None, base)
            assert result.known or base % result.multiple == result.residue
            there = [(lane, offset) for lane, offset in zip(lanes, result.offsets or (), strict=True) if lane < count]
            assert all(lane // step % length == base + offset for lane, offset in there)


def test_numbers_that_lanes_share_bits_of_stay_linear() -> None:
    thread = shape.add(shape.scale(shape.UNIFORM, 32, 32), shape.known(shape.LANES, 32), 32)
    assert thread.multiple == 32 and not thread.uniform
    assert shape.shift_right(thread, 5).uniform
    assert shape.shift_right(thread, 3).offsets == tuple(lane // 8 for lane in shape.LANES)
    assert shape.bitwise(lambda a, b: a & b, thread, 31).offsets == shape.LANES
    assert shape.shift_right(shape.add(thread, shape.UNIFORM, 32), 3).varying


def test_merging_keeps_what_both_sides_have() -> None:
    one, other = shape.constant(0, 32), shape.constant(48, 32)
    assert shape.merge(one, other) == shape.LaneShape(shape.ALIKE, None, 16, 0)
    assert shape.merge(shape.known(shape.LANES, 32), one).varying
