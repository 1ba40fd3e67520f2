"""The C++ of MSL: templates, lambdas, references in address spaces, control flow, constants."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Check

Array = NDArray[Any]

_VALUES = np.arange(1, 41, dtype=np.int32)

_FUNCTIONS = """
constant int scale = 3;
constant float table[4] = {1.0, 2.5, -3.0, 0.5};
constexpr constant int squares[5] = {0, 1, 4, 9, 16};
static constant constexpr float quarter = 0.25;
constant constexpr int twice_scale = 2 * 3;
enum Colour { red = 1, green, blue = 10 };
enum class Side : uchar { left = 3, right };
template <typename T> T twice(T v) { return v + v; }
template <> int twice<int>(int v) { return v * 2 + 1000; }
template <typename T, int N = 4> struct Sum { T total = T(0); void add(T v) { total += v * N; } T get() const {
    return total; } };
template <typename T> struct Sum<T, 0> { T total = T(7); T get() const { return total; } };
template <typename... A> int count_of(A...) { return sizeof...(A); }
template <typename T> T sum_all(T v) { return v; }
template <typename T, typename... R> T sum_all(T v, R... rest) { return v + sum_all(rest...); }
template <typename... A> int folded(A... v) { return (v + ... + 0); }
template <int N> constexpr int factorial() { if constexpr (N <= 1) { return 1; } else { return N * factorial<N -
    1>(); } }
constexpr int fibonacci(int n) { int a = 0, b = 1; for (; n > 0; n--) { int c = a + b; a = b; b = c; } return a; }
static_assert(fibonacci(10) == 55, "constexpr functions run in the compiler");
int space(device const int*) { return 1; }
int space(constant int*) { return 2; }
int space(threadgroup int*) { return 3; }
int space(thread int*) { return 4; }
void bump(thread int& v) { v += 5; }
void bump_pointer(thread int* v, int by = 2) { *v += by; }
int swap_sum(thread int& a, thread int& b) { int t = a; a = b; b = t; return a - b; }
namespace outer { namespace inner { constant int depth = 2; inline int f(int v) { return v + depth; } } using
    namespace inner; }
struct Point { float x; float y; Point operator+(Point o) const { return {x + o.x, y + o.y}; } float norm() const {
    return x * x + y * y; } };
Point operator*(float s, Point p) { return {s * p.x, s * p.y}; }
struct Counter { int n; Counter(int start) : n(start) {} thread Counter& operator+=(int v) { n += v; return *this;
    } operator int() const { return n; } };
struct Base { int base = 4; int get() const { return base; } };
struct Derived : Base { int own = 6; int both() const { return get() + own; } };
union Bits { float f; uint u; };
struct Fields { uint a : 3; uint b : 5; };
struct Functor { template <typename T> T operator()(T a, T b) const { return a * b; } static constexpr constant int
    init = 1; };
template <typename Op> int reduce4(int v) { Op op; int r = Op::init; for (int k = 0; k < 4; k++) r = op(r, v + k);
    return r; }
template <typename T> using Pair = array<T, 2>;
typedef int Alias;
using Vec = vec<int, 2>;
template <typename T> enable_if_t<is_floating_point_v<T>, int> kind(T) { return 1; }
template <typename T> enable_if_t<is_integral_v<T>, int> kind(T) { return 2; }
METAL_FUNC int inlined(int v) { return v - 1; }
static inline int quiet(int v) { return v * v; }
[[maybe_unused]] static int unused_function() { return 0; }
template <typename T> constant constexpr T pi_of = T(3.25);
inline int outer_switch(int v) {
  switch (v % 5) { case 0: return 100; case 1: case 2: v += 1; break; case 3: { int w = v * 2; v = w; }
      [[fallthrough]]; default: v -= 1; }
  return v;
}
"""

# Expression in x (int), its value, and statements before it.
_CASES: tuple[tuple[str, str, Any, str], ...] = (
    ("constant-scalar", "x * scale", lambda x: x * 3, ""),
    ("constant-array", "int(table[x % 4] * 2)", lambda x: np.array([2, 5, -6, 1])[x % 4], ""),
    ("constexpr-array", "squares[x % 5]", lambda x: (x % 5) ** 2, ""),
    ("constexpr-float", "int(x * quarter * 4)", lambda x: x, ""),
    ("constexpr-int", "x + twice_scale", lambda x: x + 6, ""),
    ("enum", "x + green + blue", lambda x: x + 12, ""),
    ("enum-class", "x + int(Side::right)", lambda x: x + 4, ""),
    ("template", "int(twice(x + 0.5f))", lambda x: 2 * x + 1, ""),
    ("specialisation", "twice(x)", lambda x: 2 * x + 1000, ""),
    ("class-template", "s.get()", lambda x: 4 * x, "Sum<int> s; s.add(x);"),
    ("partial-specialisation", "s.get() + x", lambda x: 7 + x, "Sum<int, 0> s;"),
    ("pack-size", "count_of(x, 1.0f, 2u)", lambda x: 3 + 0 * x, ""),
    ("pack-recursion", "sum_all(x, 2, 3, 4)", lambda x: x + 9, ""),
    ("fold", "folded(x, x, 1)", lambda x: 2 * x + 1, ""),
    ("if-constexpr", "factorial<5>() + x", lambda x: x + 120, ""),
    ("constexpr-function", "fibonacci(10) + x", lambda x: x + 55, ""),
    ("overload-device", "space(in_x) + x", lambda x: x + 1, ""),
    ("overload-constant", "space(&scale) + x", lambda x: x + 2, ""),
    ("overload-thread", "space(&v) + x", lambda x: x + 4, "int v = 0;"),
    ("overload-threadgroup", "space(&shared[0]) + x", lambda x: x + 3, ""),
    ("reference", "v", lambda x: x + 5, "int v = x; bump(v);"),
    ("pointer-default", "v", lambda x: x + 9, "int v = x; bump_pointer(&v); bump_pointer(&v, 7);"),
    ("two-references", "swap_sum(a, b)", lambda x: 1 - x, "int a = x, b = 1;"),
    ("namespace", "outer::inner::f(x)", lambda x: x + 2, ""),
    ("using-namespace", "outer::f(x)", lambda x: x + 2, ""),
    (
        "struct-operators",
        "int((2.0f * (p + q)).norm())",
        lambda x: 4 * ((x + 1) ** 2 + 9),
        "Point p = {float(x), 2}; Point q{1, 1};",
    ),
    ("constructor", "int(c)", lambda x: x + 3, "Counter c(x); c += 3;"),
    ("inheritance", "d.both() + x", lambda x: x + 10, "Derived d;"),
    (
        "union",
        "int(b.u >> 23)",
        lambda x: np.float32(x).view(np.uint32).astype(np.int64) >> 23,
        "Bits b; b.f = float(x);",
    ),
    ("bit-field", "int(f.a + f.b)", lambda x: (x & 7) + (x & 31), "Fields f; f.a = x & 7; f.b = x & 31;"),
    ("functor", "reduce4<Functor>(x)", lambda x: x * (x + 1) * (x + 2) * (x + 3), ""),
    ("alias-template", "p[0] + p[1]", lambda x: 2 * x + 1, "Pair<int> p = {x, x + 1};"),
    ("typedef", "v", lambda x: x, "Alias v = x;"),
    ("using-vector", "Vec(x, 2).x * Vec(x, 2).y", lambda x: 2 * x, ""),
    ("enable-if", "kind(x) * 10 + kind(1.0h)", lambda x: 21 + 0 * x, ""),
    ("METAL_FUNC", "inlined(x)", lambda x: x - 1, ""),
    ("static-inline", "quiet(x)", lambda x: x * x, ""),
    ("variable-template", "int(pi_of<float> * 4) + x", lambda x: x + 13, ""),
    (
        "switch",
        "outer_switch(x)",
        lambda x: np.select([x % 5 == 0, x % 5 <= 2, x % 5 == 3], [100, x + 1, 2 * x - 1], x - 1),
        "",
    ),
    ("lambda", "f(3)", lambda x: x + 3, "auto f = [&](int v) { return v + x; };"),
    ("lambda-by-value", "f(2)", lambda x: 2 * x, "auto f = [=](int v) -> int { return v * x; };"),
    (
        "lambda-writes",
        "total",
        lambda x: 3 * x,
        "int total = 0; auto add = [&total](int v) { total += v; }; add(x); add(2 * x);",
    ),
    ("generic-lambda", "f(x) + int(f(0.5f))", lambda x: 2 * x + 1, "auto f = [](auto v) { return v + v; };"),
    (
        "lambda-argument",
        "apply(f, x)",
        lambda x: x + 8,
        "auto f = [](int v) { return v + 4; }; auto apply = [](auto g, int v) { return g(g(v)); };",
    ),
    ("for", "s", lambda x: x * (x + 1) // 2, "int s = 0; for (int k = 1; k <= x; k++) s += k;"),
    (
        "while",
        "n",
        lambda x: x.astype(np.int64).astype(object) * 0 + [int(v).bit_length() for v in x],
        "int n = 0; int v = x; while (v) { v >>= 1; ++n; }",
    ),
    ("do-while", "n", lambda x: np.maximum(x, 1), "int n = 0; do { n++; } while (n < x);"),
    (
        "continue-break",
        "s",
        lambda x: np.array([sum(k for k in range(0, v, 2) if k < 20) for v in x]),
        "int s = 0; for (int k = 0; k < x; k++) { if (k & 1) continue; if (k >= 20) break; s += k; }",
    ),
    ("unroll", "s", lambda x: 6 * x, "int s = 0; for (int k = 0; k < 4; k++) { s += k * x; }"),
    ("ternary", "x > 20 ? x : -x", lambda x: np.where(x > 20, x, -x), ""),
    ("comma", "(v++, v + 1)", lambda x: x + 2, "int v = x;"),
    ("private-array", "a[x % 8]", lambda x: (x % 8) * 3, "int a[8]; for (int k = 0; k < 8; k++) a[k] = k * 3;"),
    (
        "two-dimensional",
        "a[x % 2][x % 3]",
        lambda x: np.array([[1, 2, 3], [4, 5, 6]])[x % 2, x % 3],
        "int a[2][3] = {{1, 2, 3}, {4, 5, 6}};",
    ),
    (
        "pointer-arithmetic",
        "int(q - a) + *q",
        lambda x: (x % 4) * 11,
        "int a[4] = {0, 10, 20, 30}; thread int* q = a + x % 4;",
    ),
    ("metal-array", "a[1] + int(a.size())", lambda x: x + 3, "array<int, 3> a = {1, x, 3};"),
    (
        "array-data",
        "a[2]",
        lambda x: 9 + 0 * x,
        "array<int, 3> a; for (size_t k = 0; k < a.size(); k++) a[k] = 3 * (k + 1);",
    ),
    ("auto", "v", lambda x: x + 1, "auto v = x + 1;"),
    ("auto-reference", "w", lambda x: x + 1, "int w = x; thread auto& r = w; r += 1;"),
    ("structured-range", "s", lambda x: 6 * x, "int a[3] = {x, 2 * x, 3 * x}; int s = 0; for (int v : a) s += v;"),
    ("decltype", "v", lambda x: x, "decltype(x) v = x;"),
    ("hex-binary-literals", "x + 0xff + 0b101 + 1'000", lambda x: x + 255 + 5 + 1000, ""),
    ("long-literal", "int((5000000000L + x) - 5000000000L)", lambda x: x, ""),
    ("float-literals", "int(1.5f + 1.5h + 1e1 + .5 + 5.f) + x", lambda x: x + 18, ""),
    ("sixty-four-bit", "int((long(x) << 40) >> 38)", lambda x: 4 * x, ""),
    ("size_t-index", "a[j]", lambda x: 2 + 0 * x, "int a[3] = {1, 2, 3}; size_t j = 1;"),
    (
        "reinterpret_cast",
        "int(*p)",
        lambda x: x & 255,
        "int v = x; thread uchar* p = reinterpret_cast<thread uchar*>(&v);",
    ),
    ("device-reference", "r + r", lambda x: 2 * x, "device const int& r = in_x[i];"),
    (
        "early-return-lambda",
        "f(x)",
        lambda x: np.where(x > 10, 1, 2),
        "auto f = [](int v) { if (v > 10) return 1; return 2; };",
    ),
    ("sizeof-array", "int(sizeof(a) / sizeof(a[0])) + x", lambda x: x + 7, "float a[7];"),
    ("logical", "int((x > 5 && x < 9) || !(x != 3))", lambda x: (((x > 5) & (x < 9)) | (x == 3)).astype(int), ""),
    ("shadowing", "v", lambda x: x, "int v = x; { int v = 99; (void)v; }"),
    ("const-thread-pointer", "*p + 1", lambda x: x + 1, "const int v = x; const thread int* p = &v;"),
    ("nullptr", "p == nullptr ? x : 0", lambda x: x, "device int* p = nullptr;"),
    (
        "names-of-opencl",
        "local + global + generic + kernel_ + pipe",
        lambda x: 5 * x,
        "int local = x, global = x, generic = x, kernel_ = x, pipe = x;",
    ),
    ("local-struct", "l.a * l.b", lambda x: 2 * x, "struct Local { int a; int b; }; Local l = {x, 2};"),
    ("static-constant-member", "Functor::init + x", lambda x: x + 1, ""),
    ("static-assert-in-body", "x", lambda x: x, 'static_assert(sizeof(int) == 4, "size");'),
    ("metal-qualified", "metal::max(x, 7)", lambda x: np.maximum(x, 7), ""),
    ("mixed-width", "int(uchar(x + 250)) + short(x)", lambda x: (x + 250) % 256 + x, ""),
    ("char-arithmetic", "int(char(100) + char(100)) + x", lambda x: x + 200, ""),
    ("half-arithmetic", "int((half(x) * 2.0h + 1.0h))", lambda x: 2 * x + 1, ""),
    ("bfloat-arithmetic", "int(bfloat(x) * bfloat(2) + 1.0bf)", lambda x: 2 * x + 1, ""),
    ("bfloat-compound", "int(b)", lambda x: 3 * x, "bfloat b = bfloat(x); b += bfloat(x); b += bfloat(x);"),
    ("bfloat-compare", "int(bfloat(x) > bfloat(9)) + int(-bfloat(x) < 0.0bf)", lambda x: (x > 9).astype(int) + 1, ""),
)


def language() -> Batch:
    checks = [
        Check(n, e, "int", partial(lambda f, v: np.asarray(f(v.x)).astype(np.int64).astype(np.int32), f), before=b)
        for n, e, f, b in _CASES
    ]
    return Batch("language", checks, {"x": ("int", _VALUES)}, prelude=_FUNCTIONS, before="  threadgroup int shared[4];")


def all_batches() -> list[Batch]:
    return [language()]
