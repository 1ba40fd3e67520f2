"""Kernels whose lanes part ways around barriers and simdgroup functions."""

from __future__ import annotations

import numpy as np

from .program import Program, zeros

_LANE = np.arange(32)
_T = np.arange(128)
_ACTIVE = "popcount(uint((simd_vote::vote_t)simd_active_threads_mask()))"
_EVEN = _LANE % 2 == 0
_HEAD = """kernel void k(device int* out, uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
              uint t [[thread_index_in_threadgroup]]) """


def _by_half(even: int, odd: int) -> list[int]:
    return [even if lane % 2 == 0 else odd for lane in range(32)]


def _case(name: str, code: str, want: object, threads: int = 32, group: int = 32) -> Program:
    size = int(np.size(np.asarray(want)))
    return Program(
        name,
        f"{_HEAD}{{\n{code}\n}}",
        [zeros(size, np.int32)],
        {"out": (0, np.asarray(want))},
        threads=threads,
        group=group,
    )


def _trips() -> list[int]:
    """Lane l adds the number of lanes still looping in each of its (l % 5) + 1 rounds."""
    alive = [sum(1 for lane in range(32) if lane % 5 >= round_) for round_ in range(5)]
    return [sum(alive[: lane % 5 + 1]) for lane in range(32)]


def _nested(lane: int) -> int:
    if lane < 16:
        return sum(x for x in range(16) if (x < 4) == (lane < 4))
    return 1000 + max(x for x in range(16, 32) if x % 3 == lane % 3)


def _partial(threads: int) -> list[int]:
    return [sum(range(lo, min(lo + 32, threads))) for lo in range(0, threads, 32) for _ in range(min(32, threads - lo))]


def _tree(group: int) -> list[int]:
    return [sum(range(base, base + group)) for base in range(0, 128, group)]


def _prefix(threads: int) -> list[int]:
    return [sum(range(lane + 1)) for lane in range(threads)]


def branches() -> list[Program]:
    """Simdgroup functions under if, else, switch and loops see only the lanes that came along."""
    even, odd = int(_LANE[_EVEN].sum()), int(_LANE[~_EVEN].sum())
    return [
        _case(
            "both-branches",
            "if (lane % 2 == 0) out[i] = simd_sum(int(lane)); else out[i] = simd_sum(int(lane));",
            _by_half(even, odd),
        ),
        _case(
            "different-functions",
            "if (lane % 2 == 0) out[i] = simd_max(int(lane)); else out[i] = simd_min(int(lane));",
            _by_half(30, 1),
        ),
        _case("one-branch", "int v = -1; if (lane < 7) v = simd_sum(1); out[i] = v;", np.where(_LANE < 7, 7, -1)),
        _case("reconverges", "int v = 0; if (lane < 9) v = simd_sum(1); out[i] = simd_sum(v);", np.full(32, 81)),
        _case("ternary", "out[i] = lane < 20 ? simd_sum(2) : simd_sum(3);", np.where(_LANE < 20, 40, 36)),
        _case(
            "nested",
            """int v; if (lane < 16) { if (lane < 4) v = simd_sum(int(lane)); else v = simd_sum(int(lane)); }
            else { if (lane % 3 == 0) v = simd_max(int(lane)); else if (lane % 3 == 1) v = simd_max(int(lane));
                else v = simd_max(int(lane)); v += 1000; }
            out[i] = v;""",
            [_nested(lane) for lane in range(32)],
        ),
        _case(
            "switch",
            """int v = 0; switch (lane % 4) { case 0: v = simd_sum(1); break; case 1: v = 10 + simd_sum(1); break;
              case 2: v = 20 + simd_sum(1); break;
            default: v = 30 + simd_sum(1); } out[i] = v;""",
            _LANE % 4 * 10 + 8,
        ),
    ]


def loops() -> list[Program]:
    """Lanes that leave a loop at different rounds, skip rounds, or leave the kernel."""
    return [
        _case(
            "lane-dependent-trips",
            "int v = 0; for (uint n = 0; n <= lane % 5; n++) v += simd_sum(1); out[i] = v;",
            _trips(),
        ),
        _case(
            "while-any",
            "int v = int(lane) % 7, n = 0; while (simd_any(v > 0)) { v--; n++; } out[i] = n * 100 + v;",
            600 + _LANE % 7 - 6,
        ),
        _case(
            "break-out",
            "int v = 0; for (int n = 0; n < 10; n++) { if (n == int(lane) % 3) break; v += simd_sum(1); } out[i] = v;",
            _breaks(),
        ),
        _case(
            "continue",
            "int v = 0; for (uint n = 0; n < 4; n++) { if ((lane + n) % 2) continue; v += simd_sum(1); } out[i] = v;",
            np.full(32, 32),
        ),
        _case(
            "return-early",
            "if (lane >= 12) { out[i] = -5; return; } out[i] = simd_sum(1);",
            np.where(_LANE < 12, 12, -5),
        ),
    ]


def partners() -> list[Program]:
    """Functions that look at other lanes, called where only some came."""
    return [
        _case("function-call", "out[i] = lane < 5 ? helper(1) : helper(2);", np.where(_LANE < 5, 5, 54)),
        _case(
            "ballot-in-branch",
            "int v = 0; if (lane & 1) v = popcount(uint((simd_vote::vote_t)simd_active_threads_mask())); out[i] = v;",
            (_LANE & 1) * 16,
        ),
        _case(
            "first-in-branch",
            "int v = 0; if (lane > 5) v = simd_is_first() ? 1 : 2; out[i] = v;",
            np.where(_LANE == 6, 1, np.where(_LANE > 5, 2, 0)),
        ),
        _case(
            "broadcast-first-in-branch",
            "int v = -1; if (lane > 9) v = simd_broadcast_first(int(lane) * 3); out[i] = v;",
            np.where(_LANE > 9, 30, -1),
        ),
        _case(
            "prefix-in-branch",
            "int v = -1; if (lane % 4 == 1) v = simd_prefix_exclusive_sum(1); out[i] = v;",
            np.where(_LANE % 4 == 1, _LANE // 4, -1),
        ),
        _case(
            "quad-in-branch",
            "int v = -1; if (lane % 4 < 3) v = quad_sum(int(lane)); out[i] = v;",
            [_quad(lane) for lane in range(32)],
        ),
        _case(
            "same-code-in-both-branches",
            f"""int v = 0; for (uint n = 0; n < lane % 2 + 1; n++) {{
            if (lane < 11) v += {_ACTIVE}; else v += {_ACTIVE}; }} out[i] = v;""",
            np.where(_LANE < 11, 11 + 5 * (_LANE % 2), 21 + 11 * (_LANE % 2)),
        ),
        _case(
            "shuffle-in-branch",
            "int v = 0; if (lane < 16) v = simd_shuffle_xor(int(lane), 1); out[i] = v;",
            np.where(_LANE < 16, _LANE ^ 1, 0),
        ),
    ]


def _quad(lane: int) -> int:
    return -1 if lane % 4 == 3 else sum(lane // 4 * 4 + k for k in range(3))


def _breaks() -> list[int]:
    alive = [sum(1 for lane in range(32) if lane % 3 > n) for n in range(3)]
    return [sum(alive[: lane % 3]) for lane in range(32)]


def barriers() -> list[Program]:
    """Barriers in loops, after early returns, in functions, and together with partial simdgroups."""
    tree = """threadgroup int s[64]; s[t] = int(i); threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint n = 32; n > 0; n >>= 1) { if (t < n) s[t] += s[t + n]; threadgroup_barrier(mem_flags::mem_threadgroup); }
    if (t == 0) out[i / 64] = s[0];"""
    scan = """threadgroup int s[2][100]; s[0][t] = int(t); threadgroup_barrier(mem_flags::mem_threadgroup); int
      from = 0;
    for (uint d = 1; d < 100; d *= 2) { s[1 - from][t] = s[from][t] + (t >= d ? s[from][t - d] : 0); from = 1 - from;
    threadgroup_barrier(mem_flags::mem_threadgroup); } out[i] = s[from][t];"""
    two_level = """threadgroup int part[4]; int v = simd_sum(int(i)); if (lane == 0) part[t / 32] = v;
        threadgroup_barrier(mem_flags::mem_threadgroup);
    int total = 0; if (t < 32) { total = simd_sum(lane < 4 ? part[lane] : 0); } if (t == 0) out[0] = total;"""
    returned = """threadgroup int s[96]; s[t] = int(t); threadgroup_barrier(mem_flags::mem_threadgroup); if (t >= 50) {
        out[i] = -1; return; }
    out[i] = s[95 - t];"""
    rounds = """threadgroup int s[40]; s[t] = int(t); for (int n = 0; n < 5; n++) {
        threadgroup_barrier(mem_flags::mem_threadgroup); int v = s[(t + 1) % 40];
    threadgroup_barrier(mem_flags::mem_threadgroup); s[t] = v; } out[i] = s[t];"""
    flags = """threadgroup int s[128]; s[t] = 1; threadgroup_barrier(mem_flags::mem_none);
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    int v = s[127 - t]; simdgroup_barrier(mem_flags::mem_none); out[i] = v + simd_sum(1);"""
    uniform = """threadgroup int s[64]; for (int n = 0; n < 3; n++) { if (n % 2 == 0) { s[t] = n * 100 + int(t);
        threadgroup_barrier(mem_flags::mem_threadgroup); } }
    out[i] = s[63 - t];"""
    return [
        _case("tree-reduction", tree, _tree(64), threads=128, group=64),
        _case("double-buffered-scan", scan, _prefix(100), threads=100, group=100),
        _case("two-level-sum", two_level, [int(_T.sum())], threads=128, group=128),
        _case(
            "return-after-barrier", returned, np.where(np.arange(96) < 50, 95 - np.arange(96), -1), threads=96, group=96
        ),
        _case("rotating-rounds", rounds, (np.arange(40) + 5) % 40, threads=40, group=40),
        _case("flags", flags, np.full(128, 33), threads=128, group=128),
        _case("uniform-branch", uniform, 200 + 63 - np.arange(64), threads=64, group=64),
    ]


def partial() -> list[Program]:
    """Simdgroups with fewer than 32 threads: only those that exist take part."""
    down = [lane + 1 if lane + 1 < 40 and lane % 32 != 31 else lane for lane in range(40)]
    quad = [sum(x for x in range(q * 4, q * 4 + 4) if x < 38) for q in range(10) for _ in range(4)][:38]
    edge = _partial(50)
    return [
        _case("forty-threads", "out[i] = simd_sum(int(i));", _partial(40), threads=40, group=40),
        _case("one-thread", "out[i] = simd_sum(7) + quad_sum(1) * 100;", [107], threads=1, group=1),
        _case("seven-threads", "out[i] = simd_max(int(i)) + simd_product(2);", np.full(7, 6 + 128), threads=7, group=7),
        _case(
            "active-mask",
            "out[i] = popcount(uint((simd_vote::vote_t)simd_active_threads_mask()));",
            [32] * 32 + [8] * 8,
            threads=40,
            group=40,
        ),
        _case("all-of-a-part", "out[i] = simd_all(t < 40) ? 1 : 0;", np.ones(40), threads=40, group=40),
        _case(
            "shuffle-down-inside",
            "int v = simd_shuffle_down(int(i), 1); out[i] = (i == 39 || i == 31) ? int(i) : v;",
            down,
            threads=40,
            group=40,
        ),
        _case("quads-at-the-edge", "out[i] = quad_sum(int(i));", quad, threads=38, group=38),
        _case("edge-group", "out[i] = simd_sum(int(i));", edge, threads=50, group=32),
        _case("broadcast-in-part", "out[i] = simd_broadcast(int(i), 2);", [2] * 32 + [34] * 8, threads=40, group=40),
        _case(
            "prefix-in-part",
            "out[i] = simd_prefix_inclusive_sum(1);",
            [*range(1, 33), *range(1, 9)],
            threads=40,
            group=40,
        ),
        _case("barrier-with-part", _PART, [79 - 0 * n for n in range(40)], threads=40, group=40),
    ]


_PART = """threadgroup int parts[2]; int v = simd_sum(int(lane < 8 ? 1 : 0)) ; if (lane == 0) parts[t / 32] = v + 31 *
    int(t / 32);
threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = parts[0] + parts[1] + 32;"""

_HELPER = "int helper(int v) { return simd_sum(v); }\n"


def all_programs() -> list[Program]:
    programs = [*branches(), *loops(), *partners(), *barriers(), *partial()]
    return [
        p if "helper(" not in p.body else Program(p.name, _HELPER + p.body, p.args, p.results, threads=p.threads)
        for p in programs
    ]
