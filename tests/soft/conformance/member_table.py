"""Member functions for objects of one address space: overloads, const, references, templates, nesting."""

from __future__ import annotations

import numpy as np

from .program import Program, zeros

_PRELUDE = """
struct Pair { float v[2]; device float &at(int i) device { return v[i]; } };
template <typename T, int N> struct Each {
  T e[N];
  thread T& operator[](size_t i) thread { return e[i]; }
  constexpr const thread T& operator[](size_t i) const thread { return e[i]; }
  device T& operator[](size_t i) device { return e[i]; }
  constexpr const device T& operator[](size_t i) const device { return e[i]; }
  constexpr const constant T& operator[](size_t i) const constant { return e[i]; }
  threadgroup T& operator[](size_t i) threadgroup { return e[i]; }
  constexpr const threadgroup T& operator[](size_t i) const threadgroup { return e[i]; }
};
struct Holder { Each<float, 4> a; Each<Each<float, 2>, 2> b; };
constant Each<float, 3> table = {{5, 6, 7}};
constant Holder held = {{{1, 2, 3, 4}}, {{{{1, 2}}, {{3, 4}}}}};
Each<float, 2> made(float x) { Each<float, 2> r; r[0] = x; r[1] = x + 1; return r; }
int space(device const float*) { return 1; }
int space(constant float*) { return 2; }
int space(threadgroup const float*) { return 3; }
int space(thread const float*) { return 4; }
struct Where {
  float v;
  int of() const thread { return space(&v); }
  int of() const device { return space(&v); }
  int of() const threadgroup { return space(&v) + 10; }
};
struct Kind {
  float v;
  int of() thread { return 4; }
  int of() device { return 1; }
  int of() threadgroup { return 3; }
  int of() const constant { return 2; }
};
struct Cursor {
  float v, w;
  device float* begin() device { return &v; }
  thread float* begin() thread { return &v; }
  const device Cursor& self() const device { return *this; }
  device Cursor& bump(float v) device { this->v += v; w += v; return *this; }
  device Cursor& operator+=(float by) device { v += by; return *this; }
  operator float() const device { return v; }
  operator float() const thread { return -v; }
  float operator()(float x) const device { return v + x; }
  float operator()(float x) const thread { return v - x; }
  template <int N> float times() const device { return v * N; }
  template <int N> float times() const thread { return v + N; }
  template <typename U> U as(U x) const device { return U(v) + x; }
  template <typename U> U as(U x) const thread { return U(v) - x; }
};
struct Base { float b; };
struct Derived : Base { float d; device float& base() device { return b; } device float& own() device { return d; } };
struct Outside { float v; device float& at() device; thread float& at() thread; float sum(float x) const device; };
device float& Outside::at() device { return v; }
thread float& Outside::at() thread { return v; }
float Outside::sum(float x) const device { return v + x; }
template <typename T> struct OutsideTemplate { T v[2]; device T& at(int i) device; };
template <typename T> device T& OutsideTemplate<T>::at(int i) device { return v[i]; }
struct Shared { float v; threadgroup float& at() threadgroup { return v; } };
struct Plain { float v; float twice() const { return 2 * v; } thread float& at() thread { return v; } };
typedef struct Named {
  float v[2];
  inline thread float& operator[](const int i) { return v[i]; }
  inline device float& operator[](const int i) device { return v[i]; }
} Named;
Named named(float x) { Named n; n[0] = x; n[1] = x + 1; return n; }
template <typename T, int N> struct Copied {
  T e[N];
  Copied() thread = default;
  Copied(const thread Copied& from) thread = default;
  Copied(const device Copied& from) thread = default;
  Copied(const thread vec<T, N>& v) thread { for (int i = 0; i < N; i++) e[i] = v[i]; }
  Copied(const device vec<T, N>& v) thread { for (int i = 0; i < N; i++) e[i] = v[i]; }
  thread Copied& operator=(const thread Copied& from) thread = default;
  thread Copied& operator=(const device Copied& from) thread = default;
  device Copied& operator=(const thread Copied& from) device = default;
  device Copied& operator=(const device Copied& from) device = default;
  threadgroup Copied& operator=(const thread Copied& from) threadgroup = default;
  threadgroup Copied& operator=(const device Copied& from) threadgroup = default;
  thread Copied& operator=(initializer_list<T> l) thread { int i = 0; for (T x : l) e[i++] = x; return *this; }
  threadgroup Copied& operator=(const thread vec<T, N>& v) threadgroup { e[0] = v[0] + 100; return *this; }
  T operator[](size_t i) const thread { return e[i]; }
  thread T& operator[](size_t i) thread { return e[i]; }
  T operator[](size_t i) const device { return e[i]; }
  device T& operator[](size_t i) device { return e[i]; }
  T operator[](size_t i) const threadgroup { return e[i]; }
  threadgroup T& operator[](size_t i) threadgroup { return e[i]; }
};
struct Alike { float v; Alike() = default; Alike(thread const Alike&) = default;
  thread Alike& operator=(thread const Alike&) = default; };
void raise(device float& x) { x += 100; }
void raise(thread float& x) { x += 200; }
float first(thread const Each<float, 2>& a) { return a[0]; }
float first(device const Each<float, 2>& a) { return a[0] + 1000; }
"""

# Statements that leave a number in `r`, and that number. `d` is device memory of zeros, `t` threadgroup memory.
_CASES: tuple[tuple[str, str, float], ...] = (
    ("device-reference", "device Pair* p = (device Pair*)d; p->at(0) = 3; p->at(1) = 4; r = p->v[0] + p->at(1);", 7),
    (
        "device-reference-bound",
        "device Pair* p = (device Pair*)d; device float& x = p->at(1); x = 5; raise(p->at(1)); r = p->v[1];",
        105,
    ),
    ("copied-thread", "Copied<float, 2> a(float2(1, 2)), b; b = a; b[1] += 4; r = b[0] + b[1];", 7),
    (
        "copied-to-device",
        "device auto& c = *(device Copied<float, 2>*)d; c = Copied<float, 2>(float2(3, 4)); r = d[1];",
        4,
    ),
    ("copied-from-device", "d[1] = 6; Copied<float, 2> a = *(device Copied<float, 2>*)d; r = a[1];", 6),
    (
        "copied-to-threadgroup",
        "threadgroup auto& c = *(threadgroup Copied<float, 2>*)t; c = Copied<float, 2>(float2(3, 4)); r = c[1];",
        4,
    ),
    (
        "converted-to-threadgroup",
        "threadgroup auto& c = *(threadgroup Copied<float, 2>*)t; c = float2(3, 4); r = c[0];",
        103,
    ),
    ("assigned-a-list", "Copied<float, 3> a; a = {1, 2, 5}; r = a[0] * 100 + a[1] * 10 + a[2];", 125),
    ("const-among-apart", "const Copied<float, 2> a(float2(1, 2)); r = a[1];", 2),
    ("temporary-among-apart", "r = Copied<float, 2>(float2(1, 8))[1];", 8),
    (
        "copied-by-default",
        "Alike a; a.v = 3; Alike b = a, c; c = b; device Alike* q = (device Alike*)d; *q = c; r = q->v;",
        3,
    ),
    ("index-thread", "Each<float, 3> a = {{1, 2, 3}}; a[1] = 9; r = a[0] + a[1];", 10),
    ("index-const-thread", "const Each<float, 3> a = {{1, 2, 3}}; r = a[2];", 3),
    ("index-device", "device auto& a = *(device Each<float, 3>*)d; a[0] = 1; a[2] = 6; r = a[0] + a[2];", 7),
    (
        "index-const-device",
        "d[0] = 8; const device auto& a = *(const device Each<float, 3>*)d; const device float& x = a[0]; r = x;",
        8,
    ),
    ("index-constant", "r = table[0] + table[2];", 12),
    ("index-constant-bound", "constant float& x = table[1]; constant float* p = &table[1]; r = x + *p;", 12),
    ("index-threadgroup", "threadgroup auto& a = *(threadgroup Each<float, 2>*)t; a[1] = 4; r = a[1] + t[1];", 8),
    ("index-const-threadgroup", "t[0] = 6; const threadgroup auto& a = *(threadgroup Each<float, 2>*)t; r = a[0];", 6),
    ("index-temporary", "r = made(5)[1];", 6),
    ("nested-constant", "r = held.a[3] + held.b[1][0];", 7),
    ("nested-device", "device Holder& h = *(device Holder*)d; h.a[1] = 2; h.b[1][1] = 3; r = h.a[1] + h.b[1][1];", 5),
    ("nested-thread", "Holder h = held; h.b[0][1] = 7; r = h.b[0][1] + h.b[1][1];", 11),
    ("copy-from-constant", "Each<float, 3> a = table; r = a[2];", 7),
    ("copy-to-device", "device auto& a = *(device Each<float, 3>*)d; a = table; r = a[1];", 6),
    ("passed-thread", "Each<float, 2> a = {{3, 4}}; r = first(a);", 3),
    ("passed-device", "d[0] = 3; r = first(*(device Each<float, 2>*)d);", 1003),
    ("object-is-thread", "Where w = {1}; r = w.of();", 4),
    ("object-is-device", "r = ((device Where*)d)->of();", 1),
    ("object-is-threadgroup", "r = ((threadgroup Where*)t)->of();", 13),
    ("kind-thread", "Kind k = {1}; r = k.of();", 4),
    ("kind-temporary", "r = Kind{1}.of();", 4),
    ("kind-device", "r = ((device Kind*)d)->of();", 1),
    ("kind-threadgroup", "r = ((threadgroup Kind*)t)->of();", 3),
    ("kind-constant", "r = n->of();", 2),
    ("pointer-device", "device Cursor& c = *(device Cursor*)d; device float* p = c.begin(); p[0] = 3; r = c.v;", 3),
    ("pointer-thread", "Cursor c = {1, 2}; thread float* p = c.begin(); *p = 5; r = c.v;", 5),
    ("returns-itself", "device Cursor& c = *(device Cursor*)d; r = c.bump(2).bump(3).w;", 5),
    ("parameter-hides-member", "device Cursor& c = *(device Cursor*)d; c.bump(2); r = c.self().v;", 2),
    ("compound-assignment", "device Cursor& c = *(device Cursor*)d; (c += 4) += 5; r = c.v;", 9),
    ("conversion-device", "device Cursor& c = *(device Cursor*)d; c.v = 4; r = float(c);", 4),
    ("conversion-thread", "Cursor c = {4, 0}; r = float(c);", -4),
    ("conversion-temporary", "r = float(Cursor{4, 0});", -4),
    ("call-device", "device Cursor& c = *(device Cursor*)d; c.v = 4; r = c(3);", 7),
    ("call-temporary", "r = Cursor{4, 0}(3);", 1),
    ("template-value", "d[0] = 5; Cursor c = {5, 0}; r = ((device Cursor*)d)->times<3>() * 100 + c.times<3>();", 1508),
    ("template-value-temporary", "r = Cursor{5, 0}.times<2>();", 7),
    ("template-type", "d[0] = 5; Cursor c = {5, 0}; r = ((device Cursor*)d)->as(3) * 10 + c.as(3.5f);", 81.5),
    ("template-type-temporary", "r = Cursor{5, 0}.as(1);", 4),
    ("base-member", "device Derived& c = *(device Derived*)d; c.base() = 2; c.own() = 3; r = c.b * 10 + c.d;", 23),
    ("outside-device", "device Outside& c = *(device Outside*)d; c.at() = 2; r = c.v + c.sum(5);", 9),
    ("outside-thread", "Outside c; c.at() = 3; r = c.v;", 3),
    ("outside-template", "device auto& c = *(device OutsideTemplate<float>*)d; c.at(1) = 2; r = c.v[1];", 2),
    ("threadgroup-only", "threadgroup Shared& s = *(threadgroup Shared*)t; s.at() = 4; r = t[0];", 4),
    ("array-of-objects", "device Pair* p = (device Pair*)d; p[1].at(0) = 3; r = d[2];", 3),
    ("array-member", "struct Many { Pair p[2]; }; device Many& m = *(device Many*)d; m.p[1].at(1) = 8; r = d[3];", 8),
    ("unqualified-beside-device", "device Named& n = *(device Named*)d; n[1] = 4; r = n[1] + named(2)[1];", 7),
    ("unqualified", "Plain p = {3}; p.at() += 1; r = p.twice();", 8),
)


def members() -> Program:
    lines = [
        f"  {{ float r = -99; for (int z = 0; z < 16; z++) {{ d[z] = 0; t[z] = 0; }} {code}\n  out[{number}] = r; }}"
        for number, (_, code, _) in enumerate(_CASES)
    ]
    body = f"{_PRELUDE}kernel void k(device float* out, device float* d, constant Kind* n) {{\n"
    body += "  threadgroup float t[16];\n" + "\n".join(lines) + "\n}"
    results = {name: (0, np.array([value], np.float32), n) for n, (name, _, value) in enumerate(_CASES)}
    return Program("members", body, [zeros(len(_CASES)), zeros(16), zeros(1)], results, threads=1, group=1)


def all_programs() -> list[Program]:
    return [members()]
