"""Memory as lanes reach it: every shape of address, with all lanes at work and with some."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from . import lanes_kit as kit

# What a thread does with its index i, given x (floats), b (bytes) and o (8 floats of its own).
ACCESSES = {
    "reversed": "o[0] = x[31 - (i & 31)];",
    "pairs": "o[0] = x[i / 2]; o[1] = x[i % 2]; o[2] = x[i / 8 * 8];",
    "runs": "o[0] = x[(i & 7) + 100 * (i >> 3 & 3)];",
    "stride": "o[0] = x[2 * i]; o[1] = x[2 * i + 1]; o[2] = x[3 * i + 1]; o[3] = x[5 * i];",
    "below": "o[0] = x[i + 64 - 2 * (i & 31)]; o[1] = x[uint(i + 3) - 3u];",
    "float4": """device const float4 *v = (device const float4 *)x; float4 a = v[i], c = v[i * 2 + 1];
      for (int k = 0; k < 4; k++) { o[k] = a[k]; o[k + 4] = c[3 - k]; }""",
    "float2": "float2 a = ((device const float2 *)x)[i]; o[0] = a.y; o[1] = a.x;",
    "float3": "packed_float3 a = ((device const packed_float3 *)x)[i]; o[0] = a[2]; o[1] = a[1]; o[2] = a[0];",
    "half4": "half4 a = ((device const half4 *)b)[i]; o[0] = a.w; o[1] = a.z; o[2] = a.x; o[3] = a.y;",
    "half8": """device const half *h = (device const half *)b + 8 * i;
      for (int k = 0; k < 8; k++) o[k] = h[k] + h[7 - k];""",
    "uchar4": "uchar4 a = ((device const uchar4 *)b)[i]; o[0] = a.w; o[1] = a.z; o[2] = a.x; o[3] = a.y;",
    "uchar16": """device const uchar *u = b + 16 * i; float s = 0;
      for (int k = 0; k < 16; k++) s = s * 2 + u[k]; o[0] = s;""",
    "bytes": """o[0] = b[i]; o[1] = b[i * 3]; o[2] = ((device const ushort *)b)[i];
      o[3] = ((device const short *)b)[7 * i]; o[4] = b[4080 + i]; o[5] = ((device const short *)b)[2040 + i];""",
    "longs": "device const long *l = (device const long *)b; o[0] = l[i] & 0xffff; o[1] = l[i * 2] >> 44;",
    "indirect": """uint j = b[i] & 63; o[0] = x[j]; o[1] = b[j]; float4 a = ((device const float4 *)x)[j];
      o[2] = a.x + a.y; o[3] = a.z - a.w; half2 c = ((device const half2 *)b)[j]; o[4] = c.x; o[5] = c.y;""",
    "stores4": "((device float4 *)o)[1] = float4(x[i], i, 2, x[i + 1]); ((device float4 *)o)[0] = x[i] * 2;",
    "stores2": """device half2 *h = (device half2 *)o; h[0] = half2(b[i], i & 31); h[2] = half2(1, b[i + 1]);
      ((device uchar4 *)o)[3] = uchar4(b[i], 1, i & 7, 3); ((device ushort4 *)o)[3] = ushort4(i, 1, b[i], 4);""",
    "private": """float a[8]; for (int k = 0; k < 8; k++) a[k] = x[i + k]; a[b[i] & 7] += 1; a[3] *= 2;
      o[0] = a[b[i + 1] & 7]; o[1] = a[5]; o[2] = a[i & 7];""",
    "private bytes": """uchar a[16]; for (int k = 0; k < 16; k++) a[k] = b[i + k]; a[b[i] & 15] += i;
      o[0] = as_type<float>(uint(a[b[i + 1] & 15]) | 0x3f800000); o[1] = a[3];""",
    "private struct": """struct S { float2 v; short m[2]; } s[2];
      for (int k = 0; k < 2; k++) { s[k].v = x[i + k]; s[k].m[0] = k; s[k].m[1] = i * k; }
      S t = s[b[i] & 1]; s[b[i + 1] & 1] = t; o[0] = t.v.y; o[1] = t.m[b[i + 2] & 1]; o[2] = s[1].v.x;
      o[3] = s[0].m[1];""",
    "private pointer": """float p[2], q[2]; for (int k = 0; k < 2; k++) { p[k] = x[i + k]; q[k] = -p[k]; }
      thread float *r = b[i] & 1 ? p : q; r[b[i] >> 1 & 1] += 2; o[0] = p[0]; o[1] = p[1]; o[2] = q[0]; o[3] = q[1];""",
    "wide private": """ulong a[2]; for (int k = 0; k < 2; k++) a[k] = ulong(b[i + k]) << 30 | k; a[b[i] & 1] ^= 5;
      uint2 w = as_type<uint2>(a[b[i + 1] & 1]); o[0] = w.x & 0xfffff; o[1] = w.y;""",
    "loop": """float s = 0; for (uint k = 0; k < (b[i] & 15u); k++) {
        float4 a = ((device const float4 *)x)[k + i]; s += a.x * a.y - a.z; o[k & 7] += s + a.w;
      }""",
}
# The same with strides that only the running kernel knows: n[0] is 40, n[1] is 3, n[2] is 0 and n[3] is -40.
STRIDED = {
    "rows": "o[0] = x[(i & 31) / 4 * n[0] + i % 4]; o[1] = x[(i & 31) / 16 * n[0] + i % 16 + 1];",
    "pairs of rows": "o[0] = x[(i & 31) / 2 * n[1] + i % 2];",
    "columns": "o[0] = x[(i & 31) * n[1]]; o[1] = x[(i & 31) * n[1] + 1]; o[2] = x[(i & 31) * n[1] + 2];",
    "backwards": "o[0] = x[400 + int(i & 31) / 4 * int(n[3]) + int(i % 4)];",
    "wrapped": "o[0] = x[400u + (i & 31u) / 4u * n[3] + i % 4u];",
    "before the first": "uint r = (i & 31u) / 4u; if (r > 2u) o[0] = x[(r - 3u) * n[0] + i % 4u];",
    "a row for each": """device const float4 *v = (device const float4 *)(x + (i & 15) * n[0]); float4 a = *v;
      o[0] = a.x; o[1] = a.w; o[2] = a.y - a.z;""",
    "walking": """device const float *p = x + (i & 31) / 8 * n[0]; float s = 0;
      for (uint k = 0; k < n[1] * 5; ++k, p += 8) s = s * 0.5f + p[i % 8]; o[0] = s;""",
    "a new stride each round": """float s = 0; uint before = 0; for (uint k = 0; k < 6; ++k) {
        uint stride = n[k & 1], now = (i & 31) / 4 * stride; s = s * 0.5f + x[now + i % 4] - x[before]; before = now;
      } o[0] = s;""",
    "bytes": "o[0] = b[(i & 31) / 8 * n[0] + i % 8]; o[1] = ((device const ushort *)b)[(i & 31) / 4 * n[1] + i % 4];",
    "compared": "o[0] = (i & 31) * n[1] < 50 ? 1 : 2; o[1] = (i & 31) * n[2] == n[2]; o[2] = float((i & 31) * n[3]);",
    "shifted": """o[0] = ((i & 31) * n[3]) >> 4; o[1] = long(int((i & 31) * n[3])) >> 1 & 0xffff;
      o[2] = (i & 31) * n[0] & 60;""",
}
# Who is at work: all lanes, some of them, or few of them in a loop of their own.
FRAMES = {
    "all": "{ BODY }",
    "some": "if (b[i] & 4) { BODY } else { o[7] = -1; }",
    "loop": "for (uint round = 0; round < (i & 3); round++) { BODY o[6] += round; }",
}
BATCH = 6


def source(bodies: Sequence[str], frame: str, count: int) -> str:
    parts = [
        f"{{ device float *o = out + 8 * (i + {count * n}); {FRAMES[frame].replace('BODY', body)} }}"
        for n, body in enumerate(bodies)
    ]
    parts.append("simdgroup_barrier(mem_flags::mem_device);")
    arguments = "device const float *x, device const uchar *b, device float *out, constant uint *n"
    return f"kernel void k({arguments}, uint i [[thread_position_in_grid]]) {{\n" + "\n".join(parts) + "\n}"


def check(bodies: Sequence[str], frame: str) -> None:
    random = np.random.default_rng(3)
    x = random.integers(-99, 99, 2048).astype(np.float32)
    halves = random.integers(-99, 99, 4096).astype(np.float16).view(np.uint8)
    count, group = (64, 64) if frame == "all" else (144, 72)
    strides = np.array([40, 3, 0, -40 % (1 << 32)], np.uint32)
    arrays: list[kit.Array] = [x, halves, np.zeros(8 * count * len(bodies), np.float32), strides]
    kit.compare(source(bodies, frame, count), arrays, (count, 1, 1), (group, 1, 1))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("names", [list(ACCESSES)[i : i + BATCH] for i in range(0, len(ACCESSES), BATCH)], ids=",".join)
def test_lanes_reach_what_threads_reach(names: Sequence[str], frame: str) -> None:
    check([ACCESSES[name] for name in names], frame)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", STRIDED)
def test_strides_at_run_time(name: str, frame: str) -> None:
    check([STRIDED[name]], frame)


@pytest.mark.parametrize("stride", [0, 1, 2, 4])
def test_the_highest_lane_has_the_last_word_at_any_stride(stride: int) -> None:
    source = """kernel void k(device uint *out, constant uint &n, uint i [[thread_position_in_grid]]) {
      out[i / 4 * n + i % 4] = i; out[64 + (31 - i) / 4 * n + i % 4] = i; out[128 + i % 4 * n + i / 4] = i;
      simdgroup_barrier(mem_flags::mem_device); }"""
    out = kit.run(source, [np.zeros(192, np.uint32), np.array([stride], np.uint32)], (32, 1, 1), (32, 1, 1))[0]
    for first, rows in ((0, range(32)), (64, range(31, -1, -1))):
        places = [row // 4 * stride + i % 4 for i, row in enumerate(rows)]
        assert all(out[first + place] == max(j for j in range(32) if places[j] == place) for place in places)


def test_the_highest_lane_has_the_last_word() -> None:
    source = """kernel void k(device uint *out, uint i [[thread_position_in_grid]]) {
      out[0] = i; out[1 + i / 4] = i; if (i % 3 == 0) out[20] = i; out[30 + i % 5] = i * i;
      simdgroup_barrier(mem_flags::mem_device); }"""
    out = kit.run(source, [np.zeros(64, np.uint32)], (32, 1, 1), (32, 1, 1))[0]
    assert list(out[:9]) == [31, *range(3, 32, 4)]
    assert out[20] == 30
    assert list(out[30:35]) == [30 * 30, 31 * 31, 27 * 27, 28 * 28, 29 * 29]
