"""Objects in device, threadgroup, constant and thread memory, and the pointers and references between them."""

from __future__ import annotations

import numpy as np

from .program import Program, zeros

_PRELUDE = """
struct Cell { float4 v; packed_float3 p; uchar tag; half2 h; };
struct Pair { float key; int index; Pair() = default; Pair(float k, int i) : key(k), index(i) {} };
struct Counters { atomic_uint hits; uint plain; };
struct Matrix { float2x2 m; float rows[2][3]; };
struct Entry { int a; float b; };
struct Complex {
  float re, im;
  Complex(float r, float i) thread : re(r), im(i) {}
  Complex(float r, float i) device : re(r), im(i) {}
  Complex operator*(Complex o) const thread { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
  Complex operator*(Complex o) const device { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
};
union Word { uint u; uchar b[4]; };
constant Entry entries[3] = {{1, 0.5f}, {2, 1.5f}, {3, 2.5f}};
constant uchar bytes[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
constant float4 basis[2] = {float4(1, 2, 3, 4), float4(5)};
constant half tiny[3] = {0.5h, 1.5h, -2.0h};
template <typename P> float first(P p) { return float(p[0]); }
template <typename T> T load(const device T* p, uint i) { return p[i]; }
template <typename T> T load(const threadgroup T* p, uint i) { return p[i] + T(100); }
template <typename T> T load(const thread T* p, uint i) { return p[i] + T(200); }
template <typename T> T load(constant T* p, uint i) { return p[i] + T(300); }
device float& at(device float* p, uint i) { return p[i]; }
void fill(thread float* p, int n, float v) { for (int k = 0; k < n; k++) p[k] = v + k; }
void fill(threadgroup float* p, int n, float v) { for (int k = 0; k < n; k++) p[k] = v * k; }
void bump(device Cell& c) { c.v.x += 1; c.tag += 1; }
float total(const thread array<float, 3>& a) { return a[0] + a[1] + a[2]; }
template <typename F> float apply(F f, float v) { return f(v); }
template <int N> struct Block {
  float values[N];
  float sum() const { float s = 0; for (float v : values) s += v; return s; } };
template <typename T, int N> float sum_of(thread const T (&a)[N]) {
  float s = 0; for (int k = 0; k < N; k++) s += a[k]; return s; }
"""

# Statements that leave a number in `r`, and that number.
_CASES: tuple[tuple[str, str, float], ...] = (
    (
        "struct-in-device",
        "d[0].v = float4(1, 2, 3, 4); d[0].v.yw = float2(7, 8); r = d[0].v.y + d[0].v.w + d[0].v.z;",
        18,
    ),
    ("packed-in-device", "d[1].p = packed_float3(1, 2, 3); d[1].p[1] = 5; r = d[1].p[0] + d[1].p[1] + d[1].p[2];", 9),
    ("packed-to-vector", "d[1].p = float3(4, 5, 6); float3 v = d[1].p; r = dot(v, float3(1));", 15),
    (
        "packed-arithmetic",
        "packed_float3 p = packed_float3(1, 2, 3); float3 v = p * 2.0f + float3(1); r = v.x + v.z;",
        10,
    ),
    ("half-in-device", "d[1].h = half2(0.5h, 2); d[1].h *= 2.0h; r = d[1].h.x + d[1].h.y;", 5),
    ("small-member", "d[1].tag = 250; d[1].tag += 10; r = d[1].tag;", 4),
    ("device-reference", "d[0].v.x = 3; d[0].tag = 1; bump(d[0]); device Cell& c = d[0]; r = c.v.x * 10 + c.tag;", 42),
    ("device-pointer-chain", "device Cell* p = d; p++; p->tag = 9; r = d[1].tag + (p - d);", 10),
    ("reference-returned", "at(f, 2) = 6; at(f, 2) += 1; r = f[2];", 7),
    ("overload-device", "f[0] = 5; r = load(f, 0);", 5),
    ("overload-threadgroup", "t[0] = 5; r = load(t, 0);", 105),
    ("overload-thread", "float p[1] = {5}; r = load(p, 0);", 205),
    ("overload-constant", "r = load(n, 0);", 307),
    ("deduced-pointer", "f[0] = 2; t[0] = 3; float p[1] = {4}; r = first(f) + first(t) + first(p) + first(n);", 16),
    ("overload-by-space", "float p[3]; fill(p, 3, 1); fill(t, 3, 5); r = p[2] + t[2];", 13),
    ("threadgroup-vector", "tv[1] = float4(1, 2, 3, 4); tv[1].zx = tv[1].xz; r = tv[1].x * 10 + tv[1].z;", 31),
    (
        "threadgroup-struct",
        "tp[3] = Pair(2.5f, 4); Pair q = tp[3]; q.index += 1; tp[2] = q; r = tp[2].key + tp[2].index;",
        7.5,
    ),
    ("threadgroup-pointer", "threadgroup float* w = t + 4; w[0] = 9; *(w + 1) = 1; r = t[4] + t[5];", 10),
    ("constant-structs", "r = entries[1].a + entries[2].b;", 4.5),
    ("constant-bytes", "r = bytes[1][2] + bytes[0][3];", 11),
    ("constant-vectors", "r = basis[0].w + basis[1].x;", 9),
    ("constant-halves", "r = tiny[0] + tiny[2];", -1.5),
    ("constant-pointer", "constant uchar* b = bytes[1]; r = b[1] + *b;", 11),
    ("constant-parameter", "r = m.m[1][0] + m.rows[1][2];", 2 + 9),
    ("matrix-copy", "Matrix w = m; w.m[0] = float2(5, 6); r = (w.m * float2(1, 1)).x;", 7),
    (
        "matrix-column-device",
        "device float2x2* w = (device float2x2*)f; device float2* c = &(*w)[1]; *c = float2(3, 4); "
        "device float2& q = w[0][0]; q = 1; r = f[0] * 10 + f[3];",
        14,
    ),
    (
        "matrix-column-constant",
        "constant float2* c = &m.m[1]; const constant float2& q = m.m[0]; r = c->x * 10 + q.x;",
        21,
    ),
    ("matrix-column-thread", "float2x2 w(1.0f); thread float2* c = &w[1]; c->x = 5; r = (w * float2(1, 2)).x;", 11),
    (
        "array-element-constant",
        "constant array<float, 1>& a = *(constant array<float, 1>*)n; constant float* p = &a[0]; r = *p;",
        7,
    ),
    (
        "array-element-device",
        "device auto& a = *(device array<float, 4>*)f; device float* p = &a[2]; *p = 8; r = f[2];",
        8,
    ),
    ("cast-bytes", "f[0] = 1; device uint* u = (device uint*)f; r = float(u[0] >> 23);", 127),
    (
        "cast-half4",
        "device half4* h = reinterpret_cast<device half4*>(f); h[0] = half4(1, 2, 3, 4); r = ((device half*)f)[2];",
        3,
    ),
    ("cast-constant", "constant uint* w = (constant uint*)bytes; r = float(w[1] & 0xffff);", 0x0605),
    ("union", "Word w; w.u = 0x01020304; r = w.b[0] * 100 + w.b[3];", 401),
    ("atomic-member", "atomic_fetch_add_explicit(&c->hits, 3u, memory_order_relaxed); c->plain = 4; r = c->plain;", 4),
    ("member-spaces", "Complex a(1, 2); Complex b = a * Complex(3, 4); r = b.re * 100 + b.im;", -490),
    ("block-member", "Block<3> b = {{1, 2, 4}}; r = b.sum();", 7),
    ("array-by-reference", "float a[4] = {1, 2, 3, 4}; r = sum_of(a);", 10),
    ("metal-array-reference", "array<float, 3> a = {1, 2, 3}; a[1] = 5; r = total(a);", 9),
    ("array-copy", "array<float, 3> a = {1, 2, 3}; auto b = a; b[0] = 9; r = a[0] + b[0];", 10),
    ("lambda-over-device", "auto put = [&](uint k, float v) { f[k] = v; }; put(1, 2); put(3, 4); r = f[1] + f[3];", 6),
    ("lambda-over-threadgroup", "auto get = [&](int k) -> float { return t[k]; }; t[7] = 12; r = get(7);", 12),
    ("lambda-to-template", "float k = 3; r = apply([&](float v) { return v * k; }, 5);", 15),
    ("unroll-pragma", "r = 0;\n#pragma unroll\nfor (int k = 0; k < 4; k++) r += k;\n", 6),
    ("unroll-full-pragma", "r = 0;\n#pragma clang loop unroll(full)\nfor (int k = 0; k < 5; k++) r += k;\n", 10),
    ("vector-from-bytes", "uchar4 b = uchar4(1, 2, 250, 4); float4 v = float4(b) + 0.5f; r = v.z + float(b.w);", 254.5),
    ("vector-truncates", "int3 v = int3(float3(1.9f, -1.9f, 7.5f)); r = v.x * 100 + v.y * 10 + v.z;", 97),
    ("vector-scalar-literal", "float4 v = float4(1, 2, 3, 4) * 2; uint3 u = uint3(1, 2, 3) + 1; r = v.w + u.z;", 12),
    ("vector-splat-assign", "float3 v = 2.5f; v = 1.5f; r = v.x + v.y + v.z;", 4.5),
    ("swizzle-of-call", "r = float4(1, 2, 3, 4).wzyx.x + max(float2(1, 5), float2(3)).y;", 9),
    ("swizzle-in-function", "float4 v = float4(1, 2, 3, 4); r = dot(v.xy, v.zw) + length(v.zz * 0.0f);", 11),
    ("const-vector", "const float4 v = float4(4, 3, 2, 1); r = v.x + v[3] + v.yz.y;", 7),
    ("select-scalar-vector", "r = select(float2(1, 2), float2(3, 4), bool2(true, false)).x;", 3),
    ("long-arithmetic", "long a = 1L << 40; ulong b = ulong(a) * 3; r = float(b >> 40);", 3),
    ("pointer-difference", "device float* p = f + 3; r = float(p - f) + float(p > f);", 4),
    ("null-check", "device float* p = nullptr; r = p ? 1 : 2;", 2),
    (
        "enum-switch",
        "enum Kind { one = 1, two }; Kind k = two; switch (k) { case one: r = 1; break; case two: r = 22; break; }",
        22,
    ),
    ("uniform", "uniform<int> u = make_uniform(3); r = u + 1;", 4),
    ("braces-zero", "Entry e = {}; float a[3] = {}; float4 v = {}; r = e.a + e.b + a[2] + v.w + 1;", 1),
    (
        "nested-struct",
        "struct In { int a[2]; }; struct Out { In in[2]; }; Out o = {{{{1, 2}}, {{3, 4}}}}; r = o.in[1].a[0];",
        3,
    ),
)


def objects() -> Program:
    lines = [f"  {{ float r = -99; {code}\n  out[{n}] = r; }}" for n, (_, code, _) in enumerate(_CASES)]
    parameters = (
        "device float* out, device Cell* d, device float* f, constant float* n, constant Matrix& m, device Counters* c"
    )
    body = f"{_PRELUDE}kernel void k({parameters}) {{\n"
    body += "  threadgroup float t[16]; threadgroup float4 tv[2]; threadgroup Pair tp[4];\n"
    body += "\n".join(lines) + "\n}"
    matrix = np.concatenate([[1, 0, 2, 3], [4, 5, 6, 7, 8, 9]]).astype(np.float32)
    args = [zeros(len(_CASES)), zeros(96, np.uint8), zeros(16), np.array([7], np.float32), matrix, zeros(2, np.uint32)]
    results = {name: (0, np.array([value], np.float32), n) for n, (name, _, value) in enumerate(_CASES)}
    return Program("memory", body, args, {**results, "atomic-member-count": (5, [3, 4])}, threads=1, group=1)


def all_programs() -> list[Program]:
    return [objects()]
