"""How arguments reach a kernel: numbering, bytes, structs, argument buffers, threadgroup memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import Program, zeros

_X = np.arange(64, dtype=np.float32)
_N = 64


def _struct_bytes() -> bytes:
    """struct Params { int n; float scale[2]; packed_uchar4 tag; float3 v; half h; long big; }"""
    head = np.array([7], np.int32).tobytes() + np.array([0.5, 1.5], np.float32).tobytes() + bytes([1, 2, 3, 4])
    vector = np.array([1, 2, 3, 0], np.float32).tobytes()
    tail = np.array([2.5], np.float16).tobytes() + bytes(6) + np.array([1 << 40], np.int64).tobytes()
    return head + vector + tail


PARAMS = "struct Params { int n; float scale[2]; packed_uchar4 tag; float3 v; half h; long big; };\n"

PROGRAMS: tuple[Program, ...] = (
    Program(
        "implicit-numbering",
        """kernel void k(device const float* a, constant float& s, device float* out, uint i
          [[thread_position_in_grid]]) {
  out[i] = a[i] * s;
}""",
        [_X, np.float32(3), zeros(_N)],
        {"out": (1, _X * 3)},
        threads=_N,
    ),
    Program(
        "mixed-numbering",
        """kernel void k(device const float* a [[buffer(2)]], constant float& s, device float* out [[buffer(1)]],
  uint i [[thread_position_in_grid]], constant uint* more) {
  out[i] = a[i] * s + more[1];
}""",
        [np.float32(2), zeros(_N), _X, np.array([5, 9], np.uint32)],
        {"out": (0, _X * 2 + 9)},
        threads=_N,
    ),
    Program(
        "struct-reference",
        PARAMS
        + """kernel void k(constant Params& p [[buffer(0)]], device float* out [[buffer(1)]]) {
  out[0] = p.n; out[1] = p.scale[1]; out[2] = p.tag.z; out[3] = p.v.z; out[4] = p.h; out[5] = p.big >> 38;
  Params copy = p; copy.n += 1; out[6] = copy.n; out[7] = dot(copy.v, p.v);
}""",
        [_struct_bytes(), zeros(8)],
        {"fields": (0, [7, 1.5, 3, 3, 2.5, 4]), "copy": (0, [8, 14], 6)},
        threads=1,
        group=1,
    ),
    Program(
        "struct-pointers",
        PARAMS
        + """int total(constant Params* p) { return p->n + int(p->v.x); }
int total(device const Params* p) { return p->n * 100; }
kernel void k(constant Params* p [[buffer(0)]], device Params* q [[buffer(1)]], device int* out [[buffer(2)]]) {
  out[0] = total(p); out[1] = total(q); q->v.y = 8; q->scale[0] += 1; *(device int*)&q->n = 12;
  device Params& r = *q; out[2] = r.n; out[3] = int(r.v.y); q[0].big = 5;
}""",
        [_struct_bytes(), np.frombuffer(_struct_bytes(), np.uint8).copy(), zeros(4, np.int32)],
        {"out": (1, [8, 700, 12, 8])},
        threads=1,
        group=1,
    ),
    Program(
        "threadgroup-argument",
        """kernel void k(device const float* a, device float* out, threadgroup float* t [[threadgroup(0)]],
          threadgroup int* u [[threadgroup(1)]],
  uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  t[l] = a[i]; u[l] = int(i);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = t[n - 1 - l] + 1000 * u[(l + 1) % n];
}""",
        [_X, zeros(_N)],
        {
            "out": (
                1,
                np.concatenate(
                    [_X[15::-1] + 1000 * np.roll(np.arange(16), -1) + s * (1 + 1000) for s in (0, 16, 32, 48)]
                ),
            )
        },
        threads=_N,
        group=16,
        shared=(64, 64),
    ),
    Program(
        "threadgroup-variables",
        """kernel void k(device const float* a, device float* out, uint i [[thread_position_in_grid]], uint l
          [[thread_index_in_threadgroup]]) {
  threadgroup float t[16]; threadgroup int u[2][8], w; threadgroup float4 v[2];
  t[l] = a[i]; u[l / 8][l % 8] = int(l); if (l == 3) { w = 7; v[1] = float4(a[i]); }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = t[l ^ 1] + u[1 - l / 8][l % 8] * 1000 + w * 100000 + v[1].z * 0;
}""",
        [_X, zeros(_N)],
        {"out": (1, _X[np.arange(64) ^ 1] + ((np.arange(64) % 16 + 8) % 16) * 1000 + 700000)},
        threads=_N,
        group=16,
    ),
    Program(
        "threadgroup-struct",
        """struct Cell { float v; uint n; };
template <typename T> void put(threadgroup T* c, uint l, T v) { c[l] = v; }
kernel void k(device float* out, uint i [[thread_position_in_grid]], uint l [[thread_position_in_threadgroup]]) {
  threadgroup Cell cells[32];
  put(cells, l, Cell{float(i), l});
  threadgroup_barrier(mem_flags::mem_threadgroup);
  threadgroup const Cell& other = cells[31 - l];
  out[i] = other.v + other.n;
}""",
        [zeros(_N)],
        {"out": (0, np.concatenate([(31 - np.arange(32)) * 2 + base for base in (0, 32)]))},
        threads=_N,
        group=32,
    ),
    Program(
        "max-total-threads",
        """[[kernel, max_total_threads_per_threadgroup(64)]] void k(
  device float* out, uint i [[thread_position_in_grid]]) { out[i] = i; }""",
        [zeros(_N)],
        {"out": (0, _X)},
        threads=_N,
        group=64,
    ),
    Program(
        "kernel-attribute",
        "[[kernel]] void k(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = i + 1; }",
        [zeros(_N)],
        {"out": (0, _X + 1)},
        threads=_N,
    ),
    Program(
        "macros",
        """#ifndef SCALE
#error "SCALE is missing"
#endif
#define ADD(a, b) ((a) + (b))
#if defined(__METAL_VERSION__) && __METAL_VERSION__ >= 300
kernel void k(device float* out, uint i [[thread_position_in_grid]]) { out[i] = ADD(SCALE * i, OFFSET); }
#endif""",
        [zeros(_N)],
        {"out": (0, _X * 3 + 2)},
        threads=_N,
        macros={"SCALE": "3", "OFFSET": "(1 + 1)"},
    ),
    Program(
        "sixty-four-bit-index",
        """kernel void k(device const float* a, device float* out, constant int64_t& stride, uint i
          [[thread_position_in_grid]]) {
  int64_t j = int64_t(i) * stride; size_t wrapped = size_t(j) % 64; out[i] = a[wrapped];
}""",
        [_X, zeros(_N), np.int64((1 << 33) + 3)],
        {"out": (1, _X[(np.arange(64) * 3) % 64])},
        threads=_N,
    ),
    Program(
        "vector-buffers",
        """kernel void k(device const float4* a, device const packed_float3* b, device half2* c, device float* out,
          uint i [[thread_position_in_grid]]) {
  out[i] = a[i].w + b[i].z; c[i] = half2(a[i].x, b[i].y); c[i].y += 1.0h;
}""",
        [np.arange(64, dtype=np.float32), np.arange(48, dtype=np.float32), zeros(32, np.float16), zeros(16)],
        {
            "out": (3, np.arange(16) * 7 + 5),
            "halves": (2, np.stack([np.arange(16) * 4, np.arange(16) * 3 + 2], 1).reshape(-1)),
        },
        threads=16,
        group=16,
    ),
    Program(
        "signed-and-small-types",
        """kernel void k(device const char* a, device const ushort* b, device long* out, device bool* flags, device
          uchar4* bytes,
  uint i [[thread_position_in_grid]]) { out[i] = long(a[i]) * b[i]; flags[i] = a[i] < 0; bytes[i] = uchar4(a[i], 1,
      2, i); }""",
        [
            np.arange(-8, 8, dtype=np.int8),
            np.arange(16, dtype=np.uint16) * 4000,
            zeros(16, np.int64),
            zeros(16, np.bool_),
            zeros(64, np.uint8),
        ],
        {
            "long": (2, np.arange(-8, 8) * np.arange(16) * 4000),
            "bool": (3, np.arange(16) < 8),
            "bytes": (
                4,
                np.stack([np.arange(-8, 8).astype(np.uint8), np.full(16, 1), np.full(16, 2), np.arange(16)], 1).ravel(),
            ),
        },
        threads=16,
        group=16,
    ),
    Program(
        "early-exit",
        """kernel void k(device float* out, constant uint& n, uint i [[thread_position_in_grid]]) {
  if (i >= n) return; out[i] = 1; }""",
        [zeros(_N), np.uint32(40)],
        {"out": (0, (np.arange(64) < 40).astype(np.float32))},
        threadgroups=4,
        group=16,
    ),
    Program(
        "volatile-and-restrict",
        """kernel void k(const device float* __restrict a, volatile device float* out, device float const* b, uint
          i [[thread_position_in_grid]]) {
  out[i] = a[i] + b[i]; }""",
        [_X, zeros(_N), _X],
        {"out": (1, 2 * _X)},
        threads=_N,
    ),
)


def all_programs() -> list[Any]:
    return list(PROGRAMS)
