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
_MADE = {
    "an object with a constructor": "const Made x(k[i]);\na[i] = x.x + x.y;",
    "such objects in an array": "const Made x[3] = {Made(k[i]), Made(2), Made(3)};\na[i] = x[int(k[i]) % 3].x;",
    "such objects without values": "const Made x[8];\na[i] = x[int(k[i]) & 7].x;",
    "such an object in each round": "for (int j = 0; j < 3; j++) { const Made x(k[i] + j); a[i] += x.x; }",
    "the result of a function": "const Long x = made(k[i]);\na[i] = x.x[int(k[i]) & 7];",
    "an array": "const float x[16] = {float(k[i]), 1, 2, 3};\nthread const float *p = x;\na[i] = p[k[i] & 3];",
}
# A cast anywhere has all constants watched.
CONSTANTS_LEGAL |= {name: f"float l = 1;\nset(&l);\n{body}" for name, body in _MADE.items()}
