"""Forms near those that public kernels use: spaces of `this`, chained conditionals, deduction, alignment."""

from __future__ import annotations

import numpy as np
import pytest

from . import lanes_kit as kit

GIVEN = [0, 0, 0, 2]
# name: declarations, body, what the body makes of GIVEN
ROWS = {
    "member template": (
        "template<typename T, int N> struct S { T v[N]; threadgroup T &g(int i) threadgroup { return v[i]; } "
        "T g(int i) const thread { return v[i]; } };",
        "threadgroup S<float, 2> t; t.g(0) = 1; S<float, 2> l = {{1, 2}}; o[0] = t.g(0) + l.g(1);",
        [3, 0, 0, 2],
    ),
    "members of members": (
        "struct I { float v; device float *p() device { return &v; } thread float *p() thread { return &v; } };"
        "struct S { I i[2]; device I &at(int n) device { return i[n]; } };",
        "I l; *l.p() = 3; *((device S *)o)->at(1).p() = l.v;",
        [0, 3, 0, 2],
    ),
    "conditionals and pointers": (
        "",
        "const int a = o[3], r = a > 1 ? a < 3 ? 1 : 2 : a == 0 ? 5 : a;"
        "device float *p = a > 2 ? o : a ? o + 1 : o + 2; *p = r;",
        [0, 1, 0, 2],
    ),
    "conditionals and templates": (
        "template<int N> int f(int a) { return N > 1 ? a : N > 0 ? 2 + a : 3; }",
        "o[0] = f<1>(o[1] > 0 ? 1 : o[3] > 0 ? 2 : 3);",
        [4, 0, 0, 2],
    ),
    "arrays of each space": (
        "template<typename S> S f(S x, const S n[]) { return x + n[1]; }"
        "template<class T, uint N> void cp(thread T (&d)[N], thread const T (&s)[N]) "
        "{ for (uint i = 0; i < N; i++) d[i] = s[i]; }"
        "template<class T, uint N> void cp(threadgroup T (&d)[N], thread const T (&s)[N]) "
        "{ for (uint i = 0; i < N; i++) d[i] = s[i]; }",
        "const float n[2] = {1, 2}; float d[2]; cp(d, n); threadgroup float t[2]; cp(t, n);"
        "o[0] = f(1.0f, n) + d[0] + t[1];",
        [6, 0, 0, 2],
    ),
    "arrays of structs": (
        "struct P { float x; }; template<class T, uint N> T last(thread const T (&s)[N]) { return s[N - 1]; }",
        "P p[3] = {{1}, {2}, {3}}; const P q[2] = {{1}, {4}}; o[0] = last(p).x + last(q).x;",
        [7, 0, 0, 2],
    ),
    "sizes of classes": (
        "template<typename T, uint N> struct A { T v[N]; };"
        "template<typename T, uint N> T last(thread const A<T, N> &a) { return a.v[N - 1]; }"
        "template<typename T, size_t N> T at(thread const array<T, N> &a, int i) { return a[i]; }"
        "template<typename T, uint N> T total(vec<T, N> v) { T sum = 0; for (uint i = 0; i < N; i++) sum += v[i]; "
        "return sum; }",
        "A<float, 3> a = {{1, 2, 3}}; array<float, 2> b = {4, 5};"
        "o[0] = last(a); o[1] = at(b, 1); o[2] = total(int3(2));",
        [3, 5, 6, 2],
    ),
    "spaces of pointers": (
        "struct S { thread const device float *p; };",
        "thread const device float *p = o; thread device const float *const *a = &p; device float *thread &r = o;"
        "S s; s.p = o; o[0] = p[3] + (*a)[3] + r[3] + s.p[3];",
        [8, 0, 0, 2],
    ),
    "shifts of vectors": (
        "",
        "int2 v = int2(3) << uint2(1, 2); v >>= uint2(1); o[0] = v.x; o[1] = v.y; o[2] = (uint4(1) << int4(3)).w;",
        [3, 6, 8, 2],
    ),
    "subscripts of temporary matrices": (
        "float3x3 f(float3x3 m) { return m; }",
        "float3x3 m(float3(1, 2, 3), float3(4, 5, 6), float3(7, 8, 9));"
        "o[0] = transpose(m)[1].y; o[1] = f(m)[2][0]; o[2] = (m * m)[0].x;",
        [5, 7, 30, 2],
    ),
    "alignment before and behind": (
        "struct __attribute__((packed)) P { char a; int b; };",
        "threadgroup __attribute__((aligned(16))) float b[16]; threadgroup float c[4] __attribute__((aligned(16)));"
        "b[0] = 1; c[0] = 1; o[0] = b[0] + c[0] + sizeof(P);",
        [7, 0, 0, 2],
    ),
    "attributes of functions": (
        "[[nodiscard]] float f() { return 1; } [[nodiscard]] inline float g() { return 2; }"
        "template<typename T> [[nodiscard]] T h(T a) { return a; }"
        "[[maybe_unused]] __attribute__((noinline)) float u() { return 4; }"
        "struct S { [[nodiscard]] float m() const { return 3; } };",
        "S s; o[0] = f() + g() + h(1.0f) + s.m();",
        [7, 0, 0, 2],
    ),
    "values of constant objects": (
        "struct S { float v[2]; device float &g(int i) device { return v[i]; } "
        "const device float &g(int i) const device { return v[i]; } float g(int i) const constant { return v[i]; } "
        "float g(int i) const { return v[i] * 10; } }; constant S fixed = {{1, 2}};"
        "float first(const device S &s) { return s.g(0); }",
        "device S &s = *(device S *)o; s.g(0) = 5; S l = {{1, 2}}; o[1] = first(s) + fixed.g(1) + l.g(1);",
        [5, 27, 0, 2],
    ),
    "stages that are templates": (
        "template<typename T> fragment T shade(float4 p [[position]]) { return T(p.x); }"
        'template [[host_name("shade_float4")]] fragment float4 shade<float4>(float4);'
        "template<typename T> [[vertex]] T place(uint i [[vertex_id]]) { return T(i); }"
        'template [[host_name("place_float4")]] [[vertex]] decltype(place<float4>) place<float4>;',
        "o[0] = 1;",
        [1, 0, 0, 2],
    ),
    "volatile vectors": (
        "struct S { float4 a; };",
        "volatile device S *v = (device S *)o; v->a = float4(2); volatile thread float2 t = float2(1); t = float2(3);"
        "volatile device int2 *w = (volatile device int2 *)o; w[0] = int2(0); o[1] = float2(t).y;",
        [0, 3, 2, 2],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_every_engine_takes_it(name: str) -> None:
    declarations, body, expected = ROWS[name]
    source = f"{declarations}\nkernel void k(device float *o) {{ {body} }}"
    given = np.array(GIVEN, np.float32)
    left = kit.compare(source, [given], (1, 1, 1), (1, 1, 1), ("lanes", "fibers", "flat"))[0]
    np.testing.assert_array_equal(left, np.array(expected, np.float32))
