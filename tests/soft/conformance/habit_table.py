"""Forms that public kernels use: nested conditionals, deduction through arrays, pointers, odd declarations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .batch import Batch, Check
from .program import Program, zeros

_VALUES = np.arange(1, 41, dtype=np.int32)

_FUNCTIONS = """
#pragma -
#pragma unheard of
constant float4 far = float4(1, 2, 3, 4);
constant int lots[5] = {1, 2, 3, 4, 5};
template <typename S> S plus_first(S x, const S n[]) { return x + n[0]; }
template <typename S> S corner(const S n[2][2]) { return n[1][1]; }
template <class T, uint N> void copy(thread T (&d)[N], thread const T (&s)[N]) {
  for (uint k = 0; k < N; k++) d[k] = s[k]; }
template <class T, uint A, uint B> void copy2(thread T (&d)[A][B], thread const T (&s)[A][B]) {
  for (uint k = 0; k < A; k++) copy(d[k], s[k]); }
template <class T, uint N> T total(thread const T (&s)[N]) {
  T r = 0; for (uint k = 0; k < N; k++) r += s[k]; return r; }
template <class T, uint V, uint N> int widths(thread const vec<T, V> (&)[N]) { return V * 10 + N; }
template <class T, int N> int which(const threadgroup T (&)[N]) { return N; }
template <class T, int N> int which(const device T (&)[N]) { return N + 100; }
template <class T, int N> int which(const thread T (&)[N]) { return N + 200; }
template <class T, int N> int which(constant T (&)[N]) { return N + 300; }
template <class V> V pair_sum(threadgroup const V* s, thread const V* t) { return s[0] + t[0]; }
template <class T> T add_reference(T a, thread const T& b) { return a + b; }
template <class T> T add_references(thread const T& a, const thread T& b) { return a + b; }
template <class T> const thread T& larger(const thread T& a, const thread T& b) { return a < b ? b : a; }
int second(const int a[3]) { return a[1]; }
int set_second(int a[3]) { a[1] = 9; return a[1]; }
struct Wrapped { int v[3]; int w[2][2]; };
int unlocked(thread const Wrapped& w) { thread Wrapped& open = const_cast<thread Wrapped&>(w); open.v[0] = 5;
  return w.v[0] + w.v[1]; }
float through(thread const device int *p) { return *p; }
template <class T> T through_two(thread device const T *const *p, int n) { return p[n][0]; }
struct Stage { float4 p [[position]]; float2 uv [[user(locn0)]]; uint flag [[user(locn1), flat]];
  float s [[point_size]]; };
[[clang::optnone]] int slow(int x) { return x + 1; }
[[gnu::pure, clang::minsize]] inline int small(int x) { return x + 2; }
metal::uint four(metal::uint x, metal::ushort y, metal::uchar z, metal::ulong w) { return x + y + z + uint(w); }
namespace apart { using metal::uint; using metal::float4; uint same(uint v) { return v; } }
float with_assert(float x) { assert(x > 0); assert(x > 0 && "positive"); return x; }
template <class T, class E = enable_if_t<is_integral<T>::value>> T signum(T x) {
  return select(select(T(0), T(1), x > T(0)), T(-1), x < T(0)); }
extern "C" struct Shared { int v; };
struct Steps {
  int at, rounds;
  int left(int x) thread { if (x <= 7) return x; return left(x - 7); }
  void next(int n, constant int* limit) thread {
    at += n;
    if (at >= limit[4]) { int extra = at - limit[4]; at = 0; rounds++; if (extra > 0) { next(extra, limit); } }
  }
};
int total(initializer_list<int> l) { int t = 0; for (int x : l) t = t * 10 + x; return t + int(l.size()) * 1000; }
template <class T> T last(metal::initializer_list<T> l) { return *(l.end() - 1) + *l.begin(); }
struct Listed { int v; Listed(initializer_list<int> l) : v(total(l)) {} Listed(int a, int b) : v(a + b) {} };
int third(int x, const constant char *s, int y) { return s[2] + x + y; }
template <class T> T first_of(constant char* s, T x) { return x + T(s[0]); }
struct __attribute__((packed)) Tight { char c; int v; };
"""

# Expression in x (int), its value, and statements before it.
_CASES: tuple[tuple[str, str, Any, str], ...] = (
    ("chain", "x > 30 ? 1 : x > 20 ? 2 : x", lambda x: np.where(x > 30, 1, np.where(x > 20, 2, x)), ""),
    ("chain-in-the-middle", "x > 9 ? x > 20 ? 5 : x : 7", lambda x: np.where(x > 20, 5, np.where(x > 9, x, 7)), ""),
    (
        "long-chain",
        "x < 2 ? 10 : x < 4 ? 11 : x < 6 ? 12 : x < 8 ? 13 : x < 10 ? 14 : x < 12 ? 15 : x < 14 ? 16 : x",
        lambda x: np.where(x < 14, 10 + x // 2, x),
        "",
    ),
    (
        "chain-of-spaces",
        "int((x > 30 ? far : x > 20 ? mine : x > 10 ? tile[0] : 0).y)",
        lambda x: np.select([x > 30, x > 20, x > 10], [2, 20, 5], 0),
        "float4 mine = float4(20); tile[0] = float4(5);",
    ),
    (
        "chain-of-bfloat",
        "int(x > 30 ? 1 : x > 20 ? b : x > 10 ? 3 : bfloat(4))",
        lambda x: np.select([x > 30, x > 20, x > 10], [1, 2, 3], 4),
        "bfloat b = 2.0bf;",
    ),
    (
        "chain-of-pointers",
        "*(x > 30 ? p : x > 20 ? p + 1 : p + 2)",
        lambda x: np.select([x > 30, x > 20], [7, 8], 9),
        "int a[3] = {7, 8, 9}; thread int* p = a;",
    ),
    ("chain-is-a-place", "a + b + c", lambda x: x + 6, "int a = 1, b = 2, c = 3; (x > 9 ? a : x > 5 ? b : c) += x;"),
    (
        "chain-in-a-call",
        "max(x > 9 ? 3 : x, x > 20 ? x : 4)",
        lambda x: np.maximum(np.where(x > 9, 3, x), np.where(x > 20, x, 4)),
        "",
    ),
    (
        "chain-of-structs-in-braces",
        "(x > 30 ? Shared{1} : x > 20 ? Shared{x} : *(device const Shared*)(in_x + i)).v",
        lambda x: np.where(x > 30, 1, x),
        "",
    ),
    ("struct-in-braces-or-variable", "(x > 30 ? s : Shared{x}).v", lambda x: np.where(x > 30, 7, x), "Shared s = {7};"),
    ("string-argument", 'third(x, "abc", 1)', lambda x: x + 100, ""),
    ("string-among-calls", 'third(max(x, 1), "abc", third(1, "xyz", 2))', lambda x: x + 99 + 125, ""),
    ("string-of-template", 'first_of("abc", x)', lambda x: x + 97, ""),
    ("string-behind-template", 'third(vec<int, 2>(x).x, "abc", 1)', lambda x: x + 100, ""),
    ("string-in-pieces", 's[3] + third(x, "ab" "c" "d", 1)', lambda x: x + 200, 'const constant char *s = "ab" "cd";'),
    ("string-variable", "s[1] + x", lambda x: x + 98, 'const constant char *s = "abc";'),
    ("array-parameter", "plus_first(x, n)", lambda x: x + 4, "const int n[2] = {4, 5};"),
    ("array-parameter-variable", "plus_first(x, n)", lambda x: 2 * x, "int n[2] = {x, 5};"),
    ("array-parameter-float", "int(plus_first(1.5f, n))", lambda x: 0 * x + 3, "const float n[2] = {2, 5};"),
    ("two-dimensional-parameter", "corner(n)", lambda x: x, "int n[2][2] = {{1, 2}, {3, x}};"),
    ("plain-array-parameter", "second(n) + set_second(n) + n[1]", lambda x: x + 18, "int n[3] = {1, x, 3};"),
    ("array-references", "d[0] + d[2]", lambda x: x + 3, "int d[3]; const int s[3] = {x, 2, 3}; copy(d, s);"),
    ("array-references-of-one", "d[1]", lambda x: x, "int d[2] = {1, x}; copy(d, d);"),
    ("nested-array-references", "d[1][0]", lambda x: x, "int d[2][2]; int s[2][2] = {{1, 2}, {x, 4}}; copy2(d, s);"),
    ("member-array", "total(w.v) + total(w.w[1])", lambda x: x + 12, "Wrapped w = {{1, 2, x}, {{1, 2}, {4, 5}}};"),
    ("const-member-array", "total(w.v)", lambda x: x + 3, "const Wrapped w = {{1, 2, x}, {{1, 2}, {4, 5}}};"),
    ("array-of-thread", "which(a)", lambda x: 0 * x + 203, "float a[3];"),
    ("array-of-threadgroup", "which(shared)", lambda x: 0 * x + 4, ""),
    ("array-of-constant", "which(lots)", lambda x: 0 * x + 305, ""),
    ("array-of-device", "which(((device const Wrapped*)in_x)->v)", lambda x: 0 * x + 103, ""),
    ("one-type-two-spaces", "pair_sum(shared, t)", lambda x: x + 3, "int t[1] = {x}; shared[0] = 3;"),
    ("reference-and-value", "add_reference(x, y) + add_reference(x, 1)", lambda x: 2 * x + 3, "int y = 2;"),
    ("references-deduced", "add_references(x, y) + add_references(x, x + 1)", lambda x: 3 * x + 3, "int y = 2;"),
    ("reference-returned", "larger(x, y)", lambda x: np.maximum(x, 9), "int y = 9;"),
    ("reference-to-call", "r", lambda x: x + 1, "const thread int &r = slow(x);"),
    ("reference-to-constructed", "(r + r).y", lambda x: 2 * x, "thread const int2 &r = int2(x);"),
    ("reference-to-struct", "r.v", lambda x: x, "const thread Shared &r = Shared{x};"),
    ("reference-to-sum", "r", lambda x: x + 1, "const thread int &r = x + 1;"),
    ("reference-to-product", "r + q", lambda x: 5 * x, "const thread int &r = x * 3; const thread int &q = 2 * x;"),
    ("reference-to-bits", "r", lambda x: (x & 6) * 2, "const thread int &r = (x & 6) * 2;"),
    ("reference-to-literal", "r + q", lambda x: 0 * x - 1, "const thread int &r = 2; thread const int &q = -3;"),
    ("reference-to-variable", "*p", lambda x: x, "int v = x; const thread int &r = v; const thread int *p = &r;"),
    ("reference-to-element", "*p", lambda x: x, "int v[2] = {1, x}; const thread int &r = v[1]; auto p = &r;"),
    ("width-deduced", "widths(v)", lambda x: 0 * x + 32, "float3 v[2];"),
    ("assert", "int(with_assert(x))", lambda x: x, ""),
    ("thread-const-device", "int(through(p)) + *p", lambda x: 2 * x, "thread const device int *p = in_x + i;"),
    ("thread-device-pointers", "through_two(ps, 1)", lambda x: x, "device const int* ps[2] = {in_x, in_x + i};"),
    (
        "pointer-in-thread",
        "*p + *q",
        lambda x: 2 * x,
        "device const int* thread p = in_x + i; thread device const int* q = p;",
    ),
    ("thread-threadgroup-pointer", "*p", lambda x: 0 * x + 6, "shared[1] = 6; thread threadgroup int* p = &shared[1];"),
    ("metal-scalar-names", "int(four(x, 1, 2, 3))", lambda x: x + 6, ""),
    ("using-metal-uint", "int(apart::same(x))", lambda x: x, ""),
    ("stage-attributes", "int(s.flag)", lambda x: x, "Stage s; s.flag = x;"),
    ("foreign-attributes", "slow(x) + small(x) + y", lambda x: 2 * x + 4, "[[clang::anything(3)]] int y = 1;"),
    ("shift-by-unsigned", "(int2(x) << uint2(1, 2)).y", lambda x: 4 * x, ""),
    ("shift-by-signed", "int((uint2(x) >> int2(1, 2)).x)", lambda x: x // 2, ""),
    ("shift-by-narrow", "(int4(x) << ushort4(3)).w", lambda x: 8 * x, ""),
    ("shift-by-scalar", "(int3(x) << 2u).z", lambda x: 4 * x, ""),
    ("shift-assigned", "v.x", lambda x: 2 * x, "int2 v = int2(x); v <<= uint2(1);"),
    ("shift-long", "int((long2(x) << int2(1)).x)", lambda x: 2 * x, ""),
    ("column-of-temporary", "int(transpose(float2x2(1, 2, 3, x))[1].y)", lambda x: x, ""),
    ("column-of-product", "int((float2x2(1) * float2x2(x))[0].x)", lambda x: x, ""),
    ("element-of-temporary", "int(transpose(float3x2(1, 2, 3, 4, 5, x))[1][2])", lambda x: x, ""),
    ("column-of-constructed", "int(float4x4(x)[2].z)", lambda x: x, ""),
    ("array-temporary", "array<int, 2>{x, 3}[0]", lambda x: x, ""),
    ("volatile-vector", "v.x + w.y", lambda x: 2 * x + 1, "volatile int2 v = int2(x); v.y = x + 1; int2 w = v;"),
    ("volatile-arithmetic", "(v + v).x", lambda x: 4 * x, "volatile int2 v = int2(x); v += int2(x);"),
    (
        "volatile-threadgroup",
        "int(w.x)",
        lambda x: 0 * x + 5,
        "volatile threadgroup float4* p = tile; p[1] = float4(5); float4 w = p[1];",
    ),
    ("integral-vector", "signum(int3(x, -x, 0)).y + int(is_integral<float2>::value)", lambda x: 0 * x - 1, ""),
    ("storage-type", "int(sizeof(simdgroup_float8x8::storage_type) / sizeof(float))", lambda x: 0 * x + 2, ""),
    ("linkage-of-a-struct", "s.v", lambda x: x, "Shared s = {x};"),
    ("packed-attribute", "int(sizeof(Tight))", lambda x: 0 * x + 5, ""),
    (
        "aligned-variable",
        "int(ulong((thread char*)a) % 32) + a[0]",
        lambda x: x,
        "int a[2] __attribute__((aligned(32))) = {x, 2};",
    ),
    ("const-cast-reference", "unlocked(w)", lambda x: x + 5, "Wrapped w = {{1, x, 3}, {}};"),
    ("const-cast-pointer", "*const_cast<thread int*>(p)", lambda x: x, "int v = x; const thread int* p = &v;"),
    ("const-cast-device", "*const_cast<device int*>(in_x + i)", lambda x: x, ""),
    ("last-act-of-a-member", "s.at * 100 + s.rounds", lambda x: x % 5 * 100 + x // 5, "Steps s = {}; s.next(x, lots);"),
    ("last-act-returned", "s.left(x)", lambda x: (x - 1) % 7 + 1, "Steps s = {};"),
    ("list-argument", "total({1, x, 3})", lambda x: 3103 + x * 10, ""),
    ("list-empty", "total({}) + x", lambda x: x, ""),
    ("list-template", "last<int>({x, 2, 3})", lambda x: x + 3, ""),
    ("list-constructor", "Listed{1, x}.v", lambda x: 2010 + x, ""),
    ("list-beside-constructor", "Listed(1, x).v", lambda x: 1 + x, ""),
    ("list-variable", "int(l.size()) * 100 + l.begin()[1]", lambda x: 300 + x, "initializer_list<int> l = {1, x, 3};"),
    (
        "tessellation-factors",
        "int(f.edgeTessellationFactor[3]) + int(sizeof(f)) + int(g.insideTessellationFactor)",
        lambda x: x + 14,
        "MTLQuadTessellationFactorsHalf f; f.edgeTessellationFactor[3] = x;"
        "MTLTriangleTessellationFactorsHalf g; g.insideTessellationFactor = 2;",
    ),
    ("coherent-name", "coherent", lambda x: x, "int coherent = x;"),
)


def habits() -> Batch:
    checks = [
        Check(n, e, "int", partial(lambda f, v: np.asarray(f(v.x)).astype(np.int32), f), before=b)
        for n, e, f, b in _CASES
    ]
    shared = "  threadgroup int shared[4]; threadgroup float4 tile[2];"
    return Batch("habits", checks, {"x": ("int", _VALUES)}, prelude=_FUNCTIONS, before=shared, group=1)


_THREADGROUP = """
struct Cell { float a; int b; };
typedef float Number;
kernel void k(device float* out, device volatile float4* v [[buffer(1), access(read_write)]],
              coherent device float* c, device coherent(device) uint* d) {
  threadgroup float s = 0.0f;
  threadgroup float list[8] = {0.f};
  threadgroup int grid[2][2] = {{0, 0}, {0, 0}};
  threadgroup float4 whole = float4(0), other = 0;
  threadgroup Cell cell = {}, cells[2] = {{0.0f, 0}};
  threadgroup bool flag = false;
  threadgroup uint x = 0u, y = 0x0;
  threadgroup float4 cast[2] = {(Number)0.f};
  threadgroup __attribute__((aligned(16))) float before[3];
  threadgroup float behind[3] __attribute__((aligned(64)));
  __attribute__((aligned(32))) threadgroup half first[3];
  alignas(16) threadgroup float c11[3];
  cast[1] = 0;
  s = 1; list[7] = 2; grid[1][1] = 3; whole = 4; other = 5; cell.b = 6; cells[1].a = 7; flag = true; x = 8; y = 9;
  before[2] = 10; behind[2] = 11; first[2] = 12; c11[2] = 13;
  out[0] = s + list[7] + grid[1][1] + whole.x + other.y + cell.b + cells[1].a + flag + x + y;
  out[1] = before[2] + behind[2] + first[2] + c11[2];
  out[2] = ulong(before) % 16 + ulong(behind) % 64 + ulong(first) % 32 + ulong(c11) % 16;
  v[0] = float4(1, 2, 3, 4); float4 w = v[0]; v[1] = w * 2.0f; v[1].x = 9; v[2] += 3.0f; c[0] = 5; d[0] = 6;
}
"""


def declarations() -> Program:
    results: dict[str, Any] = {
        "initialised-with-zeros": (0, np.array([46], np.float32), 0),
        "aligned": (0, np.array([46, 0], np.float32), 1),
        "volatile-device-vectors": (1, np.array([1, 2, 3, 4, 9, 4, 6, 8, 3, 3, 3, 3], np.float32)),
        "coherent": (2, np.array([5], np.float32)),
        "coherent-device": (3, np.array([6], np.uint32)),
    }
    args = [zeros(3), zeros(12), zeros(1), zeros(1, np.uint32)]
    return Program("declarations", _THREADGROUP, args, results, threads=1, group=1)


_BEFORE = """
template <typename T> kernel void k(device T* a, constant uint& n, uint i);
template <typename T> [[kernel]] void unused(device T*, constant uint&, uint);
template <typename T> kernel void k(device T* a [[buffer(0)]], constant uint& n [[buffer(1)]],
                                    uint i [[thread_position_in_grid]]) { a[i] = n + i; }
template [[host_name("first")]] kernel void k<float>(device float*, constant uint&, uint);
"""

_RECURSION = """
template <class T> float up(T x);
template <class T> float down(T x) { if (x < T(1)) return 1.0f; return x * up(x - T(1)); }
template <class T> float up(T x) { return down(x) + 0.5f; }
int fibonacci(int n) { if (n < 2) return n; return fibonacci(n - 1) + fibonacci(n - 2); }
struct Product { int of(int n) thread { return n < 2 ? 1 : n * of(n - 1); } };
kernel void k(device float* a [[buffer(0)]], device float* b [[buffer(1)]], device float* c [[buffer(2)]],
              uint i [[thread_position_in_grid]]) {
  Product p;
  a[i] = up(float(i)); b[i] = fibonacci(int(i)) + simd_sum(1.0f); c[i] = p.of(int(i)); }
"""

_RENDERING = """
#include <metal_texture>
#include <metal_graphics>
struct Vertex { float4 p [[position]]; float2 uv; };
struct Uniforms { float4x4 m; };
struct Maps { texture2d<float> colour [[id(0)]]; sampler s; };
constexpr sampler linear(filter::linear, address::clamp_to_edge);
constant float gain = 2;
float4 fetch(texture2d<float> t, float2 uv) { return t.sample(linear, uv); }
float shade(float2 uv) { return dfdx(uv.x) + gain; }
float shared(float x) { return x * gain; }
vertex Vertex vs(uint id [[vertex_id]], constant Uniforms& u [[buffer(0)]]) { return {u.m * float4(id), float2(0)}; }
fragment float4 fs(Vertex in [[stage_in]], texture2d<float> t [[texture(0)]]) {
  if (in.uv.x < 0) discard_fragment();
  return fetch(t, in.uv) * shade(in.uv) + shared(1); }
[[fragment]] half4 fs2(Vertex in [[stage_in]], bool front [[front_facing]]) { return half4(front); }
constant bool lit [[function_constant(0)]];
struct Corner { float3 at [[attribute(0)]]; float3 normal [[attribute(1), function_constant(lit)]]; };
vertex float4 vs2(Corner in [[stage_in]]) { return float4(in.at, lit ? in.normal.x : 0); }
kernel void image(texture2d<float, access::write> t [[texture(0)]], uint2 p [[thread_position_in_grid]]) {
  t.write(float4(1), p); }
[[visible]] float callee(float x) { return x + 1; }
kernel void k(device float* a [[buffer(0)]], uint i [[thread_position_in_grid]]) { a[i] = callee(shared(i)); }
"""

# Names that our own headers have as well, indirect arguments written by a kernel, packs of integers.
_SYSTEM = """
#include <TargetConditionals.h>
#include <simd/simd.h>
struct Shared { matrix_float4x4 m; vector_float3 v; vector_uint2 n; simd::float2 p; simd_half4 h; simd_float3x3 r; };
#if TARGET_OS_IPHONE || !TARGET_OS_OSX
#error not a Mac
#endif
#define SOFT_MACRO 3
enum Bits { SOFT_CAP = 4, SOFT_ENTRY = 5 };
int soft_meet(int x) { return x + SOFT_CAP; }
template <class F, int... I> void each(F f, metal::integer_sequence<int, I...>) { (f(I), ...); }
template <ulong... I> int total(index_sequence<I...>) { return (int(I) + ... + 0); }
kernel void SOFT_kernel(device MTLDispatchThreadgroupsIndirectArguments& groups, device int* out,
                        device MTLDrawIndexedPrimitivesIndirectArguments* draws) {
  groups.threadgroupsPerGrid[0] = 5; groups.threadgroupsPerGrid[1] = SOFT_MACRO;
  groups.threadgroupsPerGrid[2] = soft_meet(SOFT_ENTRY);
  int sum = 0; each([&](int i) { sum = sum * 10 + i; }, metal::make_integer_sequence<int, 4>{});
  using Packed = conditional_t<sizeof(int) == 4, metal::int4b_format, metal::uint4b_format>;
  out[0] = sum * is_same_v<Packed, int4b_format>; out[1] = total(make_index_sequence<5>());
  out[2] = index_sequence_for<int, float>::size() + sizeof(Shared);
  draws[1] = {1, 2, 3, -4, 5};
}
"""


def all_programs() -> list[Program]:
    counted = Program(
        "declared-first",
        _BEFORE,
        [zeros(4), np.array([3], np.uint32)],
        {"value": (0, [3, 4, 5, 6])},
        threads=4,
        kernel="first",
    )
    beside = Program("beside-render-stages", _RENDERING, [zeros(4)], {"value": (0, [1, 3, 5, 7])}, threads=4)
    recursion = Program(
        "recursion",
        _RECURSION,
        [zeros(5), zeros(5), zeros(5)],
        {"templates": (0, [1.5, 2, 4.5, 14, 56.5]), "plain": (1, [5, 6, 6, 7, 8]), "member": (2, [1, 1, 2, 6, 24])},
        threads=5,
    )
    system = Program(
        "names-of-the-system",
        _SYSTEM,
        [zeros(3, np.uint32), zeros(3, np.int32), zeros(10, np.int32)],
        {"groups": (0, [5, 3, 9]), "sequences": (1, [123, 10, 162]), "draws": (2, [0, 0, 0, 0, 0, 1, 2, 3, -4, 5])},
        threads=1,
        kernel="SOFT_kernel",
    )
    return [declarations(), counted, beside, recursion, system]


def all_batches() -> list[Batch]:
    return [habits()]
