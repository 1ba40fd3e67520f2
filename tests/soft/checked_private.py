"""Private variables that are read before they have a value, and neighbours of them that are right."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlx_native_py.softmetal.checked import UninitialisedRead

from .checked_programs import Program

KEYS = np.arange(64, dtype=np.int32) % 16
PARAMS = "device float* a [[buffer(0)]], device const int* k [[buffer(1)]]"
STRUCTS = """
struct Pair { float x, y; };
struct Padded { uchar c; float f; };
struct Nested { Pair p[2]; half h; };
struct Wide { float3 v; uchar tail; };
struct Bits { uint low : 3; uint high : 5; };
union Either { float f; uint u; uchar bytes[8]; };
"""
FUNCTIONS = """
static void maybe(thread float &x, int n) { if (n > 2) x = n; }
static void always(thread float *x, int n) { *x = n; }
static float first(float x, float y) { return x; }
__attribute__((noinline)) static float apart(float x) { return x * 2; }
template <class T> static T chosen(bool c, T value) { T x; if (c) x = value; return x; }
static Pair half_of(float v) { Pair p; p.x = v; return p; }
static int deep(int n) { return n < 2 ? n : deep(n - 1) + deep(n - 2); }
"""
BRANCH, ADDRESS, STORE = "decides a branch", "is part of an address", "is stored where others see it"
_FAULTS = {
    # name: body, variable, use, what is put right
    "on one way only": ("float x;\nif (k[i] > 2) x = 1;\na[i] = x;", "x", STORE, ("float x;", "float x = 0;")),
    "never": ("float x;\na[i] = x + 1;", "x", STORE, ("float x;", "float x = 2;")),
    "of an array": ("float v[8];\na[i] = v[k[i] & 7];", "v", STORE, ("v[8]", "v[8] = {}")),
    "of an array in part": (
        "float v[8];\nfor (int j = 0; j < 7; j++) v[j] = j;\na[i] = v[k[i] & 7];",
        "v",
        STORE,
        ("j < 7", "j < 8"),
    ),
    "of an array, by a loop of data": (
        "float v[16];\nfor (int j = 0; j < k[i]; j++) v[j] = j;\na[i] = v[k[i] & 15];",
        "v",
        STORE,
        ("j < k[i]", "j < 16"),
    ),
    "a member": ("Pair p;\np.x = 1;\na[i] = p.x + p.y;", "p", STORE, ("p.x = 1", "p.x = p.y = 1")),
    "a member of members": (
        "Nested v;\nv.h = 1;\nv.p[0].x = v.p[0].y = v.p[1].x = 2;\na[i] = v.p[k[i] & 1].y;",
        "v",
        STORE,
        ("= v.p[1].x = 2", "= v.p[1].x = v.p[1].y = 2"),
    ),
    "a component": ("float4 v;\nv.x = v.y = v.w = 1;\na[i] = v[k[i] & 3];", "v", STORE, ("v.w = 1", "v.w = v.z = 1")),
    "a component of three": ("float3 v;\nv.xy = 1;\na[i] = v.z;", "v", STORE, ("v.xy = 1", "v.xyz = 1")),
    "half of a vector": ("half2 v;\nv.y = 3;\na[i] = v.x * v.y;", "v", STORE, ("v.y = 3", "v = 3")),
    "a column": ("float2x2 m;\nm[0] = 1;\na[i] = m[1].x;", "m", STORE, ("m[0] = 1", "m[0] = m[1] = 1")),
    "a packed component": ("packed_float3 v;\nv.x = v.y = 1;\na[i] = v.z;", "v", STORE, ("v.x = v", "v.z = v.x = v")),
    "a condition": (
        "int x;\nif (k[i] > 4) x = 3;\na[i] = 0;\nif (x > 2) a[i] = 1;",
        "x",
        BRANCH,
        ("int x;", "int x = 0;"),
    ),
    "a flag": (
        "bool found;\nfor (int j = 0; j < 4; j++) if (k[j] == k[i]) found = true;\nif (found) a[i] = 1;",
        "found",
        BRANCH,
        ("bool found;", "bool found = false;"),
    ),
    "a switch": (
        "int x;\nif (k[i] > 4) x = 1;\n"
        "switch (x) { case 0: a[i] = 4; break; case 1: a[i] += 2; break; case 7: a[i] *= a[i]; }",
        "x",
        BRANCH,
        ("int x;", "int x = 0;"),
    ),
    "rounds of a loop": (
        "int m;\nif (k[i] > 4) m = 3;\nfor (int j = 0; j < m; j++) a[i] += k[j];",
        "m",
        BRANCH,
        ("int m;", "int m = 1;"),
    ),
    "an index": ("uint j;\nif (k[i] > 4) j = i;\na[i] = k[j & 63];", "j", ADDRESS, ("uint j;", "uint j = 0;")),
    "an index of a store": ("uint j;\nif (k[i] > 20) j = 1;\na[i + j] = 1;", "j", ADDRESS, ("uint j;", "uint j = 0;")),
    "to threadgroup memory": (
        "threadgroup float s[64];\nfloat x;\nif (t > 3) x = 1;\ns[t] = x;\na[i] = 2;",
        "x",
        STORE,
        ("float x;", "float x = 0;"),
    ),
    "an atomic": (
        "uint x;\nif (k[i] > 3) x = 1;\natomic_fetch_add_explicit((device atomic_uint *)a, x, memory_order_relaxed);",
        "x",
        STORE,
        ("uint x;", "uint x = 0;"),
    ),
    "by reference": ("float x;\nmaybe(x, k[i]);\na[i] = x;", "x", STORE, ("float x;", "float x = 0;")),
    "in a function": ("a[i] = chosen(k[i] > 4, 2.5f);", "x", STORE, ("k[i] > 4", "k[i] >= 0")),
    "of a result": ("a[i] = half_of(k[i]).y;", "p", STORE, ("half_of(k[i]).y", "half_of(k[i]).x")),
    "a copy": ("Pair p, q;\np.x = 1;\nq = p;\na[i] = q.y;", "p", STORE, ("p.x = 1", "p.x = p.y = 1")),
    "by another name": (
        "float y, x;\nif (k[i] > 4) x = 1;\ny = x;\na[i] = sqrt(y) + 1;",
        "x",
        STORE,
        ("y, x;", "y, x = 1;"),
    ),
    "in each round": (
        "for (int j = 0; j < 3; j++) {\nfloat x;\nif (j == 0) x = k[i];\na[i] += x;\n}",
        "x",
        STORE,
        ("float x;", "float x = 0;"),
    ),
    "a large array": ("float v[300];\nv[k[i]] = 1;\na[i] = v[k[i] + 1];", "v", STORE, ("k[i] + 1", "k[i]")),
    "an array of 2 MiB": (
        "float v[500000];\nfor (int j = 0; j < k[i] * 1000; j++) v[j] = j;\na[i] = v[k[i] * 1000 + 1];",
        "v",
        STORE,
        ("j < k[i]", "j < 2 + k[i]"),
    ),
    "an array with padding": (
        "Padded v[100];\nfor (int j = 0; j < 100; j++) v[j].c = j;\nv[k[i]].f = 1;\na[i] = v[k[i] + 1].f;",
        "v",
        STORE,
        ("k[i] + 1", "k[i]"),
    ),
    "through a pointer": (
        "float y = 1, x;\nthread float *p = k[i] > 4 ? &x : &y;\na[i] = *p;",
        "x",
        STORE,
        ("1, x;", "1, x = 3;"),
    ),
    "a struct in a buffer": (
        "Pair p;\np.x = 1;\nif (k[i] > 20) p.y = 2;\nif (i < 32) ((device Pair *)a)[i] = p;",
        "p",
        STORE,
        ("k[i] > 20", "true"),
    ),
    "a wide number": (
        "ulong x;\nif (k[i] > 4) x = 1;\na[i] = float(x >> 40);",
        "x",
        STORE,
        ("ulong x;", "ulong x = 0;"),
    ),
    "bytes of a number": ("uchar4 v;\nv.x = 1;\na[i] = as_type<uint>(v);", "v", STORE, ("v.x = 1", "v = 1")),
}


def unwritten(faults: Mapping[str, tuple[str, str, str, tuple[str, str]]], more: str = "") -> list[Program]:
    """Programs of a table like the one above."""
    return [
        Program(
            name,
            body,
            (np.zeros(64, np.float32), KEYS),
            UninitialisedRead,
            [f"'{variable}' ", use, "has no value", "threadgroup (0, 0, 0)", "program_source:", "^"],
            fix,
            PARAMS,
            STRUCTS + FUNCTIONS + more,
            fields={"place.space": "private memory", "place.name": variable, "access.group": (0, 0, 0)},
        )
        for name, (body, variable, use, fix) in faults.items()
    ]


PRIVATE_UNWRITTEN = unwritten(_FAULTS)

LEGAL = {
    "written on both ways": "float x;\nif (k[i] > 4) x = 1; else x = 2;\na[i] = x;",
    "used only where written": "float x;\nif (k[i] > 4) x = 1;\na[i] = k[i] > 4 ? x : 3;",
    "used only where written, far apart": "float x;\nbool c = k[i] > 4;\nif (c) x = 1;\na[i] = 1;\nif (c) a[i] = x;",
    "never used": "float x, v[4];\nPair p;\na[i] = k[i];",
    "used in what is not used": "float x;\nfloat y = x * 2;\na[i] = k[i];",
    "component by component": "float4 v;\nv.x = 1; v.y = 2; v.z = 3; v.w = 4;\na[i] = v[k[i] & 3];",
    "only components that are written": "float4 v;\nv.xy = 2;\na[i] = v.x + v.y;",
    "swizzles of what is written": "float4 v;\nv.yw = float2(k[i]);\nfloat2 w = v.wy;\na[i] = w.x;",
    "a vector of three in a struct": (
        "Wide w;\nw.v.x = 1; w.v.y = 2; w.v.z = 3; w.tail = 4;\nif (i < 8) ((device Wide *)a)[i] = w;"
    ),
    "padding of a struct": "Padded p;\np.c = 1; p.f = k[0];\nif (i < 32) ((device Padded *)a)[i] = p;",
    "padding of a copy": "Padded p, q;\np.c = 1; p.f = 2;\nq = p;\nif (i < 32) ((device Padded *)a)[i] = q;",
    "a copy of what has no value": "Pair p, q;\np.x = k[i];\nq = p;\na[i] = q.x;",
    "an array filled by a loop": "float v[16];\nfor (int j = 0; j < 16; j++) v[j] = k[j];\na[i] = v[k[i]];",
    "an array filled as far as it is read": "float v[16];\nfor (int j = 0; j <= k[i]; j++) v[j] = j;\na[i] = v[k[i]];",
    "an array as a stack": (
        "int v[32], top = 0;\nfor (int j = 0; j < k[i] + 1; j++) v[top++] = j;\n"
        "int sum = 0;\nwhile (top) sum += v[--top];\na[i] = sum;"
    ),
    "a sum that is set to zero": "float s[4];\nfor (int j = 0; j < 4; j++) s[j] = 0;\n"
    "for (int j = 0; j < 16; j++) s[k[j] & 3] += j;\na[i] = s[k[i] & 3];",
    "given by reference": "float x;\nalways(&x, k[i]);\na[i] = x;",
    "given to who does not look": "float x;\na[i] = first(k[i], x);",
    "given to a function that is not inlined": "float x;\nif (k[i] >= 0) x = k[i];\na[i] = apart(x);",
    "given back by a loop": (
        "float best;\nfor (int j = 0; j < 16; j++) if (j == 0 || k[j] > best) best = k[j];\na[i] = best;"
    ),
    "the first of a search": (
        "int where;\nbool found = false;\n"
        "for (int j = 0; j < 16; j++) if (k[j] == k[i] && !found) { where = j; found = true; }\n"
        "a[i] = found ? where : -1;"
    ),
    "a condition that decides first": "int x;\nbool c = k[i] > 4;\nif (c) x = k[i];\nif (c && x > 7) a[i] = 1;",
    "a condition inside a loop": (
        "bool flag;\nbool c = k[i] > 4;\nif (c) flag = k[i] & 1;\n"
        "for (int j = 0; j < k[i]; j++) if (c) { if (flag) a[i] += j; }"
    ),
    "bits that are masked out": "uint x;\nuint y = (x & 0u) | k[i];\na[i] = y;",
    "fields of bits": "Bits b;\nb.low = k[i] & 7;\nb.high = 3;\na[i] = b.low + b.high;",
    "a member of a union": "Either e;\ne.f = k[i];\na[i] = e.u & 1;",
    "a broadcast of one lane": "float x;\nif (t % 32 == 0) x = k[i];\na[i] = simd_broadcast(x, 0);",
    "a shuffle among those that have it": (
        "float x;\nif (t % 2 == 0) x = k[i];\nfloat y = simd_shuffle(x, ushort(t & 30));\na[i] = y;"
    ),
    "a matrix column by column": (
        "float3x3 m;\nfor (int j = 0; j < 3; j++) m[j] = float3(j);\na[i] = (m * float3(1)).x;"
    ),
    "a matrix of a simdgroup": (
        "simdgroup_float8x8 m, square;\nm = make_filled_simdgroup_matrix<float, 8, 8>(1);\n"
        "simdgroup_multiply(square, m, m);\nif (t < 32) simdgroup_store(square, a);"
    ),
    "recursion": "int x;\nx = deep(k[i] & 7);\na[i] = x;",
    "declared before a switch": (
        "float x;\n"
        "switch (k[i] & 3) { case 0: x = 1; break; case 1: x = 5; break; case 2: x = 2; break; default: x = 9; }\n"
        "a[i] = x;"
    ),
    "a pointer to one of two": (
        "float x = 1, y;\nthread float *p = &y;\n*p = k[i];\np = k[i] > 4 ? &x : p;\na[i] = *p;"
    ),
    "frexp and modf give back": (
        "int e;\nfloat m = frexp(float(k[i]) + 1, e);\nfloat w;\nm += modf(m, w);\na[i] = m + e + w;"
    ),
}
"""Bodies of kernels that are right."""
