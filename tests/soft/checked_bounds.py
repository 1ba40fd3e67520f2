"""Accesses just outside of private variables, always or by a cause, and outside of arrays in private structs."""

from __future__ import annotations

from .checked_arrays import FOUR, through

_NEXT = "void next(thread float *v) { v[1] = 2; }"
MEMBERS = """
struct Two { float p[4]; float q[4]; int n; };
struct Rows { float m[2][4]; float q; };
struct Tail { int c; float p[4]; };
static void put(thread float *p, int n) { p[n] = 3; }
static float sum(thread const float *v, int n) { float s = 0; for (int j = 0; j < n; j++) s += v[j]; return s; }
static uint byte_of(device const uchar *p, int n) { return p[n]; }
static void put_byte(threadgroup uchar *p, int n) { p[n] = n; }
struct Method { float p[4]; float q[4]; float total(int n) const { return sum(p, n); } };
struct Block { uchar scales[4]; uchar quants[8]; half d; };
struct Blocks { Block blocks[2]; Block last; int n; };
template <class T> static uint bytes_of(T p, int n) { uint s = 0; for (int j = 0; j < n; j++) s += p[j]; return s; }
struct Nested { Two two[2]; Two last; int n; };
struct Library { array<float, 4> p; float4 v; float2x2 m; packed_float3 w; int n; };
struct United { union { float p[4]; uint u[4]; }; float q[4]; int n; };
"""
_PUT, _SUM = MEMBERS.splitlines()[4:6]
_LIBRARY = "Library s;\ns.p = {{1, 2, 3, 4}};\ns.v = s.p[0];\ns.m = float2x2(1);\ns.w = s.v.xyz;\ns.n = a[i];\n"
_TWO = "Two s = {{1, 2, 3, 4}, {a[i]}};\n"

_JUST_OUTSIDE = [
    through(
        "before a number",
        "float x = a[i];\n(&x)[int(a[i] > 0) - 1] = 3;\nb[i] = x;",
        "(&x)[int(a[i] > 0) - 1] = 3;",
        ("[int(a[i] > 0) - 1]", "[int(a[0])]"),
    ),
    through(
        "before a number, always",
        "float x = a[i];\n(&x)[-1] = 3;\nb[i] = x;",
        "(&x)[-1] = 3;",
        ("[-1]", "[0]"),
    ),
    through(
        "behind a number, always",
        "float x = a[i];\nb[i] = (&x)[1];",
        "b[i] = (&x)[1];",
        ("[1]", "[0]"),
    ),
    through(
        "before a byte",
        "uchar x = a[i];\n(&x)[int(a[i] > 0) - 1] = 3;\nb[i] = x;",
        "(&x)[int(a[i] > 0) - 1] = 3;",
        ("[int(a[i] > 0) - 1]", "[int(a[0])]"),
    ),
    through(
        "before a struct",
        "Pair x = {a[i], 1};\n(&x)[int(a[i] > 0) - 1].y = 3;\nb[i] = x.y;",
        "(&x)[int(a[i] > 0) - 1].y = 3;",
        ("[int(a[i] > 0) - 1]", "[int(a[0])]"),
        "struct Pair { float x, y; };",
    ),
    through(
        "behind an array, always, in a function",
        FOUR + "next(p + 3);\nb[i] = p[i % 4];",
        _NEXT,
        ("p + 3", "p + 2"),
        _NEXT,
    ),
    through(
        "behind an array, always, by a reference",
        FOUR + "thread float *q = p;\nthread float &r = q[4];\nr = 1;\nb[i] = p[i % 4];",
        "r = 1;",
        ("q[4]", "q[3]"),
    ),
    through(
        "behind an array, always, a struct",
        "Pair p[2] = {{a[i], 1}, {2, 3}};\nthread Pair *q = p;\nq[2] = p[0];\nb[i] = p[i % 2].x;",
        "q[2] = p[0];",
        ("q[2]", "q[1]"),
        "struct Pair { float x, y; };",
    ),
    through(
        "behind an array, always, parts of a vector",
        "float4 p[2] = {a[i], 1};\nthread float4 *q = p;\nfloat2 v = q[2].zw;\nb[i] = v.x + p[i % 2].x;",
        "float2 v = q[2].zw;",
        ("q[2]", "q[1]"),
    ),
    through(
        "from one table into the next, always",
        "constant float *p = T;\nb[i] = p[4] + U[i % 4];",
        "b[i] = p[4] + U[i % 4];",
        ("p[4]", "p[3]"),
        "constant float T[4] = {1, 2, 3, 4}, U[4] = {5, 6, 7, 8};",
    ),
]
_MEMBERS_OUTSIDE = [
    through(
        "from an array of a struct into the next, always",
        _TWO + "put(s.p, 4);\nb[i] = s.q[0];",
        _PUT,
        ("put(s.p, 4)", "put(s.p, 3)"),
        MEMBERS,
    ),
    through(
        "from an array of a struct into the next",
        _TWO + "put(s.p, int(a[4]));\nb[i] = s.q[0];",
        _PUT,
        ("a[4]", "a[3]"),
        MEMBERS,
    ),
    through(
        "from an array of a struct into the one before",
        _TWO + "put(s.q, -int(a[1]));\nb[i] = s.p[3];",
        _PUT,
        ("a[1]", "a[0]"),
        MEMBERS,
    ),
    through(
        "from an array of a struct by a loop",
        _TWO + "b[i] = sum(s.p, int(a[5]));",
        _SUM,
        ("a[5]", "a[4]"),
        MEMBERS,
    ),
    through(
        "from an array of a struct by steps",
        _TWO + "thread float *r = &s.p[0];\nr += int(a[3]);\nr[1] = 4;\nb[i] = s.q[0];",
        "r[1] = 4;",
        ("a[3]", "a[2]"),
        MEMBERS,
    ),
    through(
        "from rows of a struct into the next member",
        "Rows s = {{{1, 2, 3, 4}, {2}}, a[i]};\nput(s.m[0], int(a[8]));\nb[i] = s.q;",
        _PUT,
        ("a[8]", "a[7]"),
        MEMBERS,
    ),
    through(
        "from an array of an object into the next, in a method",
        "Method s = {{1, 2, 3, 4}, {a[i]}};\nb[i] = s.total(int(a[5]));",
        _SUM,
        ("a[5]", "a[4]"),
        MEMBERS,
    ),
    through(
        "from an element of an array of a struct into the next",
        _TWO + "thread float *r = &s.p[int(a[1])];\nr[3] = 4;\nb[i] = s.q[0];",
        "r[3] = 4;",
        ("a[1]", "a[0]"),
        MEMBERS,
    ),
    through(
        "from a reference to an element into the next array",
        _TWO + "thread float &r = s.p[2];\n(&r)[2] = 4;\nb[i] = s.q[0];",
        "(&r)[2] = 4;",
        ("[2] = 4", "[1] = 4"),
        MEMBERS,
    ),
    through(
        "from an array of a struct in a struct",
        "Nested s = {};\ns.n = a[i];\nput(s.two[i & 1].p, int(a[4]));\nb[i] = s.n;",
        _PUT,
        ("a[4]", "a[3]"),
        MEMBERS,
    ),
    through(
        "from structs in a struct into the next",
        "Nested s = {};\ns.n = a[i];\nthread Two *r = s.two;\nr[int(a[2])].p[0] = 1;\nb[i] = s.n;",
        "r[int(a[2])].p[0] = 1;",
        ("a[2]", "a[1]"),
        MEMBERS,
    ),
    through(
        "from an array in a union into the next member",
        "United s = {};\ns.n = a[i];\nput(s.p, int(a[4]));\nb[i] = s.n;",
        _PUT,
        ("a[4]", "a[3]"),
        MEMBERS,
    ),
    *(
        through(f"from {what} in a struct", f"{_LIBRARY}{line}\nb[i] = s.n + s.v.x;", line, fix, MEMBERS)
        for what, line, fix in (
            ("metal::array", "s.p[int(a[4])] = 1;", ("a[4]", "a[3]")),
            ("a vector", "s.v[int(a[4])] = 1;", ("a[4]", "a[3]")),
            ("a matrix", "s.m[int(a[2])].x = 1;", ("a[2]", "a[1]")),
            ("a column of a matrix", "s.m[1][int(a[2])] = 1;", ("a[2]", "a[1]")),
            ("a packed vector", "s.w[int(a[3])] = 1;", ("a[3]", "a[2]")),
        )
    ),
    through(
        "a column that a constant matrix has not",
        "b[i] = M[int(a[2])].x + T[i % 4];",
        "b[i] = M[int(a[2])].x + T[i % 4];",
        ("a[2]", "a[1]"),
        "constant float2x2 M = float2x2(2);\nconstant float T[4] = {1, 2, 3, 4};",
    ),
]
BOUNDS_LEFT = [*_JUST_OUTSIDE, *_MEMBERS_OUTSIDE]

BOUNDS_LEGAL = {
    "the end of an array of a struct": (
        "Two s = {{1, 2, 3, 4}, {float(k[i])}};\nfloat y = 0;\n"
        "for (thread float *r = s.p; r != s.p + 4; r++) y += *r;\na[i] = y;"
    ),
    "from row to row": (
        "Rows s = {{{1, 2, 3, 4}, {2}}, float(k[i])};\nput(s.m[0], 7);\nput(&s.m[0][0], 5);\na[i] = s.q;"
    ),
    "a struct as a whole": (
        "Two s = {{1, 2, 3, 4}, {float(k[i])}};\nthread float *r = (thread float *)&s;\nr[5] = 1;\na[i] = s.q[1];"
    ),
    "the array at the end of a struct": "Tail s = {1, {1, 2, 3, 4}};\nput(s.p, k[i] & 3);\na[i] = s.p[2];",
    "one of two arrays of a struct": (
        "Two s = {{1, 2, 3, 4}, {float(k[i])}};\nthread float *r = k[i] > 4 ? s.p : s.q;\nr[3] = 4;\n"
        "a[i] = s.q[0] + s.p[3];"
    ),
    "arrays of a struct in turn": (
        "Two s = {{1, 2, 3, 4}, {float(k[i])}};\nthread float *x = s.p, *y = s.q;\n"
        "for (int j = 0; j < 3; j++) { for (int m = 0; m < 4; m++) y[m] = x[m] + 1;\n"
        "thread float *z = x; x = y; y = z; }\na[i] = x[2] + y[3];"
    ),
    "arrays of a struct in memory of others": (
        "device Two *s = (device Two *)a;\nif (i == 0) { device float *r = s->p; r[4] = 4; }"
    ),
    "bytes of a struct in device memory": (
        "device const Block *s = (device const Block *)k;\ndevice const uchar *r = s->scales;\na[i] = r[4 + (i & 7)];"
    ),
    "bytes of a struct in device memory, in a function": (
        "device const Block *s = (device const Block *)k + (i & 1);\na[i] = byte_of(s->scales, i & 7);"
    ),
    "parts of bytes of a struct in device memory": (
        "device const Block *s = (device const Block *)k;\n"
        "device const packed_uchar4 *r = (device const packed_uchar4 *)s->scales;\na[i] = r[1].x + r[2].y;"
    ),
    "bytes of a struct that is written in device memory": (
        "device Block *s = (device Block *)a;\nif (i == 0) { device uchar *r = s->scales; r[5] = 4; }"
    ),
    "bytes of structs in a struct in device memory": (
        "device const Blocks *s = (device const Blocks *)k;\ndevice const uchar *r = s->blocks[1].scales;\n"
        "device const Block *w = s->blocks;\na[i] = r[7] + r[16] + w[2].quants[1] + w[1].scales[k[i] & 3];"
    ),
    "bytes of a struct in device memory and in a private one": (
        "device const Block *s = (device const Block *)k;\nBlock own = *s;\n"
        "a[i] = bytes_of(own.scales, 4) + bytes_of(s->scales, 12) + bytes_of(own.quants, 8);"
    ),
    "bytes of a struct in threadgroup memory": (
        "threadgroup Block s[2];\nthreadgroup Block *r = &s[k[0] & 1];\n"
        "if (t == 0) for (int j = 0; j < 12; j++) put_byte(r->scales, j);\n"
        "threadgroup_barrier(mem_flags::mem_threadgroup);\na[i] = r->quants[i & 7];"
    ),
    "members of our own types": (
        "Library s = {{{1, 2, 3, 4}}, float4(k[i]), float2x2(1), packed_float3(1, 2, 3), 4};\nfloat y = 0;\n"
        "for (int j = 0; j < 4; j++) y += s.p[j] + s.v[j] + s.m[j / 2][j & 1];\n"
        "for (float z : s.p) y += z;\na[i] = y + s.w[k[i] % 3] + s.n;"
    ),
    "elements by pointers": (
        "Two s = {{1, 2, 3, 4}, {float(k[i])}};\nthread float *r = &s.q[k[i] & 3], *e = &s.p[4];\nfloat y = 0;\n"
        "while (e != s.p) y += *--e;\na[i] = y + r[-(k[i] & 3)];"
    ),
    "an array in a union": (
        "United s = {};\nthread float *r = s.p;\n"
        "for (int j = 0; j < 4; j++) r[j] = k[i];\na[i] = s.u[k[i] & 3] + s.q[1];"
    ),
}
"""Bodies that are right, with `MEMBERS` before them."""
