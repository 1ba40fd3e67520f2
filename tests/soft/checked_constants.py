"""Private variables that are `const` and written all the same, and casts that are right."""

from __future__ import annotations

import numpy as np

from mlx_native_py.softmetal.checked import OutOfBounds

from .checked_private import KEYS, PARAMS
from .checked_programs import Program

_FUNCTIONS = """
struct Pair { float x, y; };
struct Made { float x, y; Made() : x(3), y(4) {} Made(float v) { x = v; y = 2; } };
struct Long { float x[8]; };
struct Inner { Pair p; };
struct First { float x = 1, y = 2; };
struct Counted { float x; mutable int n, m; float y; float get() const { n++; return x; } };
struct Holder { Counted c; float z; };
static __attribute__((noinline)) Long made(float v) { Long l; for (int j = 0; j < 8; j++) l.x[j] = v + j; return l; }
static void set(thread const float *q) { *(thread float *)q = 4; }
static void set_of(thread const Pair &q) { const_cast<thread Pair &>(q).y = 4; }
static float read_of(thread const float *q) { thread float *p = (thread float *)q; return *p; }
static float given(const float x) { set(&x); return x; }
static float looked_at(const float x) { return read_of(&x); }
"""
_FAULTS = {
    # name: body, bytes, part of the line, what is put right; the variable is x
    "by a function": (
        "const float x = k[i];\nset(&x);\na[i] = x;",
        4,
        "*(thread float *)q = 4",
        ("set(&x)", "read_of(&x)"),
    ),
    "at once": (
        "const float x = k[i];\n*(thread float *)&x = 2;\na[i] = x;",
        4,
        "*(thread float *)&x",
        ("const float", "float"),
    ),
    "by const_cast": (
        "const int x = k[i];\nthread int *p = const_cast<thread int *>(&x);\n*p = 3;\na[i] = x;",
        4,
        "*p = 3",
        ("const int", "int"),
    ),
    "of an array": (
        "const float x[4] = {1, 2, 3, 4};\nthread float *p = (thread float *)x;\np[k[i] & 3] = 7;\na[i] = x[k[i] & 2];",
        4,
        "p[k[i] & 3]",
        ("const float x", "float x"),
    ),
    "of a struct": ("const Pair x = {1, 2};\nset_of(x);\na[i] = x.y;", 4, "const_cast", ("const Pair", "Pair")),
    "of a vector": (
        "const float2 x = k[i];\nthread float2 *p = (thread float2 *)&x;\n*p = 3;\na[i] = x.y;",
        8,
        "*p = 3",
        ("const float2", "float2"),
    ),
    "of a parameter": ("a[i] = given(k[i]);", 4, "*(thread float *)q = 4", ("(const float x)", "(float x)")),
    "a member at once": (
        "const Pair x = {1, float(k[i])};\n*(thread float *)&x.x = 2;\na[i] = x.x;",
        4,
        "*(thread float *)&x.x = 2",
        ("const Pair", "Pair"),
    ),
    "a member of a member at once": (
        "const Inner x = {{1, float(k[i])}};\n*(thread float *)&x.p.y += 2;\na[i] = x.p.y;",
        4,
        "*(thread float *)&x.p.y += 2",
        ("const Inner", "Inner"),
    ),
    "a member by const_cast at once": (
        "const Pair x = {1, float(k[i])};\nconst_cast<thread float &>(x.x) = 2;\na[i] = x.x;",
        4,
        "const_cast<thread float &>(x.x) = 2",
        ("const Pair", "Pair"),
    ),
    "an element at once": (
        "const float x[4] = {1, float(k[i]), 2, 3};\n*(thread float *)&x[k[i] & 3] = 1;\na[i] = x[i & 3];",
        4,
        "*(thread float *)&x[k[i] & 3] = 1",
        ("const float x", "float x"),
    ),
    "a component at once": (
        "const float4 x = k[i];\n((thread float *)&x)[1] = 1;\na[i] = x.y;",
        4,
        "((thread float *)&x)[1] = 1",
        ("const float4", "float4"),
    ),
    "a vector at once": (
        "const float2 x = k[i];\n*(thread float2 *)&x = 1;\na[i] = x.y;",
        8,
        "*(thread float2 *)&x = 1",
        ("const float2", "float2"),
    ),
    "beside a mutable member": (
        "const Counted x = {float(k[i]), 1, 2};\nset(&x.y);\na[i] = x.get() + x.n;",
        4,
        "*(thread float *)q = 4",
        ("const Counted", "Counted"),
    ),
    "beside a mutable member of a member": (
        "const Holder x = {{float(k[i]), 1, 2}, 3};\nset(&x.c.x);\na[i] = x.c.get() + x.c.n;",
        4,
        "*(thread float *)q = 4",
        ("const Holder", "Holder"),
    ),
    "beside a mutable member of an element": (
        "const Counted x[2] = {{float(k[i]), 1, 2}, {1, 2, 3}};\nset(&x[k[i] & 1].y);\na[i] = x[k[i] & 1].get();",
        4,
        "*(thread float *)q = 4",
        ("const Counted", "Counted"),
    ),
    "in a round": (
        "for (int j = 0; j < 3; j++) {\nconst float x = j;\nif (k[i] == 3) set(&x);\na[i] += x;\n}",
        4,
        "*(thread float *)q = 4",
        ("set(&x)", "read_of(&x)"),
    ),
}

CONSTANTS_WRITTEN = [
    Program(
        f"constant: {name}",
        body,
        (np.zeros(64, np.float32), KEYS),
        OutOfBounds,
        [f"write of {nbytes} bytes to the private variable 'x', which is const", "program_source:", line, "^"],
        fix,
        PARAMS,
        _FUNCTIONS,
        fields={"place.space": "private memory", "place.name": "x", "access.kind": "write"},
    )
    for name, (body, nbytes, line, fix) in _FAULTS.items()
]

CONSTANTS_LEGAL = {
    "a cast that is read through": "const float x = k[i];\nthread float *p = (thread float *)&x;\na[i] = *p;",
    "made anew in each round": "for (int j = 0; j < 3; j++) { const float x = j + k[i]; a[i] += read_of(&x); }",
    "made anew in rounds that are left": (
        "for (int j = 0; j < 9; j++) { const float x = j + k[i]; if (read_of(&x) > 7) continue;\n"
        "if (read_of(&x) > 5) break; a[i] += x; }"
    ),
    "parameters, twice": "a[i] = looked_at(k[i]) + looked_at(2);\nfor (int j = 0; j < 3; j++) a[i] += looked_at(j);",
    "a constant pointer to what is not": (
        "float y = 1;\nthread const float *q = &y;\n*(thread float *)q = k[i];\na[i] = y;"
    ),
    "a constant reference to what is not": "float y = 1;\nset(&y);\nthread const float &r = y;\na[i] = r;",
    "chosen": "const float x = k[i] > 4 ? 1 : 2, y = 3;\na[i] = read_of(k[i] > 7 ? &x : &y);",
    "a copy": "const Pair x = {1, 2};\nPair y = x;\nset_of(y);\na[i] = y.y + x.y;",
    "neighbours": "float l = 1;\nconst float x = k[i];\nfloat r = 2;\nset(&l);\nset(&r);\na[i] = l + r + read_of(&x);",
}
CONSTANTS_LEGAL |= {
    "a declaration with a cast": "const float y = k[i];\nconst Pair x = {*(thread float *)&y, 2};\na[i] = x.x;",
    "two declarations with a cast": "const Pair x = {1, 2}, y = {3, *(thread float *)&x.x};\na[i] = x.x + y.y;",
    "a cast in a line that declares, in each round": (
        "for (int j = 0; j < 3; j++) { const Pair x = {float(j), 2}; a[i] += *(thread float *)&x.x; }"
    ),
    "values of members, in such a line": (
        "for (int j = 0; j < 3; j++) { const First x = {}; a[i] += *(thread float *)&x.x; }"
    ),
    "a number of a range": "float p[3] = {1, 2, 3}; for (const float x : p) { a[i] += *(thread float *)&x; }",
    "the condition of a loop": ("for (const Pair x = {1, float(k[i])}; *(thread float *)&x.x < 0;) {}\na[i] = 1;"),
    "the condition of a branch": "if (const int x = k[i]) { a[i] += *(thread int *)&x; }",
    "what a lambda keeps": ("const Pair x = {1, 2};\nauto f = [x]() { return *(thread float *)&x.x; };\na[i] = f();"),
    "a copy at once": "const Pair x = {1, 2};\nPair y = *(thread Pair *)&x;\ny.x = 3;\na[i] = y.x + x.x;",
}
_MADE = {
    "a mutable member, by a method": "const Counted x = {float(k[i]), 1, 2};\na[i] = x.get() + x.n;",
    "a mutable member, at once": "const Counted x = {float(k[i]), 1, 2};\nx.m = 3;\na[i] = x.get() + x.m;",
    "a mutable member of a member": "const Holder x = {{float(k[i]), 1, 2}, 3};\na[i] = x.c.get() + x.c.n;",
    "a mutable member of elements": (
        "const Counted x[2] = {{float(k[i]), 1, 2}, {1, 2, 3}};\na[i] = x[k[i] & 1].get() + x[1].n;"
    ),
    "an object with a constructor": "const Made x(k[i]);\na[i] = x.x + x.y;",
    "such objects in an array": "const Made x[3] = {Made(k[i]), Made(2), Made(3)};\na[i] = x[int(k[i]) % 3].x;",
    "such objects without values": "const Made x[8];\na[i] = x[int(k[i]) & 7].x;",
    "such an object in each round": "for (int j = 0; j < 3; j++) { const Made x(k[i] + j); a[i] += x.x; }",
    "the result of a function": "const Long x = made(k[i]);\na[i] = x.x[int(k[i]) & 7];",
    "an array": "const float x[16] = {float(k[i]), 1, 2, 3};\nthread const float *p = x;\na[i] = p[k[i] & 3];",
}
# A cast anywhere has all constants watched.
CONSTANTS_LEGAL |= {name: f"float l = 1;\nset(&l);\n{body}" for name, body in _MADE.items()}
