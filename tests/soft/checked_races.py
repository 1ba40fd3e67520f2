"""Programs whose threads race."""

from __future__ import annotations

import numpy as np

from mlx_native_py.softmetal.checked import DataRace

from .checked_programs import AB, SYNC, VARIABLE, Program, floats, zeros

_TG = ["data race", "threadgroup memory", "threadgroup_barrier(mem_flags::mem_threadgroup)"]
WRITTEN = VARIABLE + f"s[t] = a[i]; {SYNC}\n"

THREADGROUP_RACES = [
    Program(
        "neighbour without a barrier",
        VARIABLE + "s[t] = a[i];\n/**/ b[i] = s[(t + 1) % 64];",
        AB,
        DataRace,
        _TG,
        ("/**/", SYNC),
    ),
    Program(
        "barrier without memory",
        VARIABLE + "s[t] = a[i]; threadgroup_barrier(mem_flags::mem_none); b[i] = s[63 - t];",
        AB,
        DataRace,
        _TG,
        ("mem_none", "mem_threadgroup"),
    ),
    Program(
        "barrier for the other memory",
        VARIABLE + "s[t] = a[i]; threadgroup_barrier(mem_flags::mem_device); b[i] = s[63 - t];",
        AB,
        DataRace,
        _TG,
        ("mem_device", "mem_threadgroup"),
    ),
    Program(
        "tree without inner barriers",
        VARIABLE + f"s[t] = a[i]; {SYNC}\nfor (uint k = 32; k > 0; k /= 2) {{ if (t < k) s[t] += s[t + k]; /**/ }}\n"
        "b[i] = s[t];",
        AB,
        DataRace,
        _TG,
        ("/**/", SYNC),
    ),
    Program(
        "next round before all have read",
        VARIABLE + f"for (uint k = 0; k < 4; k++) {{ s[t] = a[i] + k; {SYNC} b[i] += s[63 - t]; /**/ }}",
        AB,
        DataRace,
        _TG,
        ("/**/", SYNC),
    ),
    Program(
        "two writers",
        VARIABLE + "if (t == 3 || t == 40) s[7] = t; b[i] = a[i];",
        AB,
        DataRace,
        [*_TG, "byte 28"],
        (" || t == 40", ""),
    ),
    Program(
        "everybody sets a flag",
        "threadgroup uint f; f = 1; b[i] = a[i];",
        AB,
        DataRace,
        _TG,
        ("f = 1", "if (t == 0) f = 1"),
    ),
    Program(
        "one byte of four", "threadgroup uchar c[64]; c[t] = t; b[i] = c[t ^ 1];", AB, DataRace, _TG, ("t ^ 1", "t")
    ),
    Program(
        "simdgroup barrier across simdgroups",
        VARIABLE + "s[t] = a[i]; simdgroup_barrier(mem_flags::mem_threadgroup); b[i] = s[63 - t];",
        AB,
        DataRace,
        _TG,
        ("s[63 - t]", "s[t ^ 31]"),
    ),
    Program(
        "plain read of a threadgroup atomic",
        "threadgroup atomic_uint c;\n"
        "if (t == 0) atomic_store_explicit(&c, 0, memory_order_relaxed);\n"
        + SYNC
        + "if (t < 8) atomic_fetch_add_explicit(&c, 1, memory_order_relaxed);\n"
        "/**/ if (t > 8) b[i] = *(threadgroup uint*)&c;",
        AB,
        DataRace,
        [*_TG, "atomic"],
        ("/**/", SYNC),
    ),
    Program(
        "plain read behind the thread's own atomic",
        "threadgroup atomic_uint c;\n"
        "if (t == 0) atomic_store_explicit(&c, 0, memory_order_relaxed);\n"
        + SYNC
        + "atomic_fetch_add_explicit(&c, 1, memory_order_relaxed);\n"
        "/**/ b[i] = *(threadgroup uint*)&c;",
        AB,
        DataRace,
        [*_TG, "atomic"],
        ("/**/", SYNC),
    ),
    Program(
        "the first of two readers",
        WRITTEN + "if (t == 1 || t == 2) b[i] = s[0]; if (t == 2) s[0] = 1;",
        AB,
        DataRace,
        _TG,
        ("t == 1 || ", ""),
    ),
    Program(
        "the second of two readers",
        WRITTEN
        + "if (t == 1 || t == 2) b[i] = s[0]; if (t == 1 && a[i] < 0) s[1] = 0; if (t == 3 && a[i] > 0) s[0] = 1;",
        AB,
        DataRace,
        _TG,
        ("s[0] = 1", "s[3] = 1"),
    ),
    Program(
        "everybody reads, one writes",
        WRITTEN + "b[i] = s[5]; if (t == 5) s[5] = 2;",
        AB,
        DataRace,
        _TG,
        ("if (t == 5)", SYNC + " if (t == 5)"),
    ),
    Program(
        "scan without a second barrier",
        VARIABLE + f"s[t] = a[i]; {SYNC}\nfor (uint k = 1; k < 64; k *= 2) {{\n"
        f"float v = t >= k ? s[t - k] : 0; /**/ s[t] += v; {SYNC} }}\n"
        "b[i] = s[t];",
        AB,
        DataRace,
        _TG,
        ("/**/", SYNC),
    ),
    Program(
        "a tile read sideways",
        "threadgroup float q[8][8]; uint x = t % 8, y = t / 8; q[y][x] = a[i]; /**/ b[i] = q[x][y];",
        AB,
        DataRace,
        _TG,
        ("/**/", SYNC),
    ),
    Program(
        "a vector beside a scalar",
        "threadgroup float4 v[16]; if (t < 16) v[t] = float4(a[t]); /**/ b[i] = ((threadgroup float*)v)[t];",
        AB,
        DataRace,
        _TG,
        ("/**/", SYNC),
    ),
    Program(
        "simdgroup sums without a barrier",
        "threadgroup float p[2]; float v = simd_sum(a[i]); if (t % 32 == 0) p[t / 32] = v; /**/ b[i] = p[0] + p[1];",
        AB,
        DataRace,
        _TG,
        ("/**/", SYNC),
    ),
    Program(
        "a barrier in only one of two rounds",
        VARIABLE + f"s[t] = a[i]; {SYNC} float v = s[63 - t]; if (g > 9) s[0] = 1; s[t] = v; b[i] = s[t];",
        AB,
        DataRace,
        _TG,
        ("if (g > 9)", SYNC + " if (g > 9)"),
    ),
]

_DEVICE = ["data race", "'b'"]

DEVICE_RACES = [
    Program(
        "bytes of all in a loop with a condition",
        "for (int j = 0; j < 60; j++) if (b[j] > 3) a[j] = i;",
        (np.zeros(64, np.uint8), np.arange(64, dtype=np.uint8) % 16),
        DataRace,
        ["data race", "'a' (slot 0, 64 bytes)", "byte 4"],
        ("a[j] = i", "if (i == 0) a[j] = i"),
        "device uchar* a [[buffer(0)]], device const uchar* b [[buffer(1)]]",
    ),
    Program(
        "neighbour in device memory",
        "b[i] = a[i]; /**/ a[i] = b[63 - t];",
        AB,
        DataRace,
        [*_DEVICE, "mem_device"],
        ("/**/", "threadgroup_barrier(mem_flags::mem_device);"),
    ),
    Program(
        "barrier for threadgroup memory only",
        f"b[i] = a[i]; {SYNC} a[i] = b[63 - t];",
        AB,
        DataRace,
        _DEVICE,
        ("mem_threadgroup", "mem_device"),
    ),
    Program("a plain counter", "b[0] += a[i];", AB, DataRace, [*_DEVICE, "byte 0"], ("b[0]", "b[i]")),
    Program(
        "halves of one word",
        "b[i / 2] = a[i];",
        (zeros(64, np.float16), zeros(64, np.float16)),
        DataRace,
        _DEVICE,
        ("i / 2", "i"),
        params="device half* a [[buffer(0)]], device half* b [[buffer(1)]]",
    ),
    Program("in place with a shift", "b[i] = b[(i + 1) % 64] + a[i];", AB, DataRace, _DEVICE, ("(i + 1) % 64", "i")),
    Program(
        "plain store beside atomics",
        "atomic_fetch_add_explicit((device atomic_uint*)b, 1u, memory_order_relaxed); if (t == 9) b[0] = 0; a[i] = 0;",
        AB,
        DataRace,
        [*_DEVICE, "atomic"],
        ("b[0]", "b[1]"),
    ),
]

_GROUPS = ["data race", "'b'", "no order between threadgroups"]

GROUP_RACES = [
    Program(
        "all groups write the same place",
        "b[t] = a[i];",
        (floats(256), zeros(256)),
        DataRace,
        _GROUPS,
        ("b[t]", "b[i]"),
        threads=256,
    ),
    Program(
        "a histogram without atomics",
        "if (t == 0) b[g / 2] += a[i];",
        (floats(256), zeros(256)),
        DataRace,
        _GROUPS,
        ("g / 2", "g"),
        threads=256,
    ),
    Program(
        "reading the next group's output",
        "b[i] = a[i]; a[i] = b[(i + 64) % 256];",
        (floats(256), zeros(256)),
        DataRace,
        _GROUPS,
        ("b[(i + 64) % 256]", "b[i]"),
        threads=256,
    ),
    Program(
        "reversed in place",
        "float v = b[255 - i]; b[i] = v + a[i];",
        (floats(256), zeros(256)),
        DataRace,
        _GROUPS,
        ("b[255 - i]", "b[i]"),
        threads=256,
    ),
    Program(
        "plain read of another group's atomic",
        "if (g == 0) atomic_fetch_add_explicit((device atomic_uint*)b, 1u, memory_order_relaxed); else a[i] = b[0];",
        (floats(256), zeros(256)),
        DataRace,
        [*_GROUPS, "atomic"],
        ("b[0]", "b[1]"),
        threads=256,
    ),
    Program(
        "one byte shared by two groups",
        "if (t == 0) b[3] = g;",
        (zeros(64, np.uint8), zeros(64, np.uint8)),
        DataRace,
        _GROUPS,
        ("b[3]", "b[g]"),
        threads=128,
        params="device uchar* a [[buffer(0)]], device uchar* b [[buffer(1)]]",
    ),
]

MATRIX_RACES = [
    Program(
        "two simdgroups store one matrix",
        "simdgroup_float8x8 m; simdgroup_load(m, a, 8); simdgroup_store(m, b, 8);",
        AB,
        DataRace,
        ["data race", "'b'"],
        ("simdgroup_store", "if (t < 32) simdgroup_store"),
    ),
]
