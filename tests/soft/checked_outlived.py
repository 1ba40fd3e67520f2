"""Private variables that are read through pointers after their blocks have ended, and pointers that are right."""

from __future__ import annotations

import numpy as np

from mlx_native_py.softmetal.checked import UninitialisedRead

from .checked_private import ADDRESS, BRANCH, KEYS, PARAMS, STORE
from .checked_programs import Program

_FUNCTIONS = """
struct Pair { float x, y; };
struct Holder { thread float *p; };
static void keep(thread Holder &h, thread float &x) { h.p = &x; }
static thread float *same(thread float *p) { return p; }
static thread float *local_of(float n) { float x = n; return &x; }
static thread float &parameter_of(float x) { return x; }
static thread float *member_of(float n) { Pair x; x.x = 1; x.y = n; return &x.y; }
template <class F> static float called(F f) { return f(); }
"""
_FAULTS = {
    # name: body, use, what is put right; the variable is x
    "a block": (
        "thread float *p;\n{ float x = k[i]; p = &x; }\na[i] = *p;",
        STORE,
        ("{ float x = k[i]; p = &x; }", "float x = k[i]; p = &x;"),
    ),
    "one way only": (
        "float y = 1;\nthread float *p = &y;\nif (k[i] > 4) { float x = k[i]; p = &x; }\na[i] = *p;",
        STORE,
        ("{ float x = k[i]; p = &x; }", "{ y = k[i]; p = &y; }"),
    ),
    "an earlier round": (
        "thread float *p = nullptr;\n"
        "for (int j = 0; j < 3; j++) { if (p) a[i] += *p; float x = k[i] + j; p = &x; a[i] += *p; }",
        STORE,
        ("if (p) a[i] += *p;", ""),
    ),
    "a loop's variable": (
        "thread int *p;\nfor (int x = 0; x < 3; x++) p = &x;\na[i] = k[*p & 15];",
        ADDRESS,
        ("for (int x = 0; x < 3; x++) p = &x;", "int x; for (x = 0; x < 3; x++) p = &x;"),
    ),
    "an array": (
        "thread float *p;\n{ float x[16]; for (int j = 0; j < 16; j++) x[j] = j; p = x + k[i]; }\na[i] = *p;",
        STORE,
        ("{ float x[16]; for (int j = 0; j < 16; j++) x[j] = j; p = x + k[i]; }", "float x[16] = {}; p = x + k[i];"),
    ),
    "an array by index": (
        "thread float *p;\n{ float x[4] = {1, 2, 3, 4}; p = x; x[k[i] & 3] = 5; }\na[i] = p[k[i] & 3];",
        STORE,
        ("{ float x[4] = {1, 2, 3, 4}; p = x; x[k[i] & 3] = 5; }", "float x[4] = {1, 2, 3, 4}; p = x;"),
    ),
    "a member": (
        "thread float *p;\n{ Pair x; x.x = 1; x.y = k[i]; p = &x.y; }\na[i] = *p;",
        STORE,
        ("{ Pair x; x.x = 1; x.y = k[i]; p = &x.y; }", "Pair x; x.y = k[i]; p = &x.y;"),
    ),
    "a vector": (
        "thread float4 *p;\n{ float4 x = k[i]; p = &x; }\na[i] = p->y;",
        STORE,
        ("{ float4 x = k[i]; p = &x; }", "float4 x = k[i]; p = &x;"),
    ),
    "kept in a struct": (
        "Holder h;\n{ float x = k[i]; keep(h, x); }\na[i] = *h.p;",
        STORE,
        ("{ float x = k[i]; keep(h, x); }", "float x = k[i]; keep(h, x);"),
    ),
    "given back": (
        "thread float *p;\n{ float x = k[i]; p = same(&x); }\na[i] = *p;",
        STORE,
        ("{ float x = k[i]; p = same(&x); }", "float x = k[i]; p = same(&x);"),
    ),
    "of a function": ("a[i] = *local_of(k[i]);", STORE, ("*local_of(k[i])", "local_of(k[i]) ? 1 : 2")),
    "of a function's struct": ("a[i] = *member_of(k[i]);", STORE, ("*member_of(k[i])", "member_of(k[i]) ? 1 : 2")),
    "a parameter": ("a[i] = parameter_of(k[i]);", STORE, ("= parameter_of(k[i])", "= 1")),
    "that decides": (
        "int y = 1;\nthread int *p = &y;\nif (k[i] > 4) { int x = 3; p = &x; }\n"
        "for (int j = 0; j < *p; j++) a[i] += k[j];",
        BRANCH,
        ("{ int x = 3; p = &x; }", "{ y = 3; p = &y; }"),
    ),
}
OUTLIVED = [
    Program(
        f"outlived: {name}",
        body,
        (np.zeros(64, np.float32), KEYS),
        UninitialisedRead,
        [f"'x' {use} after its block has ended", "threadgroup (0, 0, 0)", "program_source:", "^"],
        fix,
        PARAMS,
        _FUNCTIONS,
        fields={"place.space": "private memory", "place.name": "x"},
    )
    for name, (body, use, fix) in _FAULTS.items()
]

OUTLIVED_LEGAL = {
    "a pointer in its block": "float y = 0;\n{ float x = k[i]; thread float *p = &x; *p += 1; y = *p; }\na[i] = y;",
    "a reference": "for (int j = 0; j < 3; j++) { float x = j; thread float &r = x; r += k[i]; a[i] += r; }",
    "a pointer that is set again": (
        "float y = 2;\nthread float *p;\n{ float x = k[i]; p = &x; a[i] = *p; }\np = &y;\na[i] += *p;"
    ),
    "a pointer that is set in each round": (
        "thread float *p;\nfor (int j = 0; j < 3; j++) { float x = k[i] + j; p = &x; a[i] += *p; }"
    ),
    "a pointer that nobody follows": "thread float *p;\n{ float x = k[i]; p = &x; }\na[i] = p ? 1 : 0;",
    "the value of a block": "float v;\n{ float x = k[i]; thread float *p = &x; v = *p; }\na[i] = v;",
    "a lambda by reference": (
        "for (int j = 0; j < 3; j++) { float x = k[i]; auto f = [&]() { x += j; };\nf(); a[i] += x; }"
    ),
    "a lambda that is given": "{ float x = k[i]; a[i] = called([&]() { return x + 1; }); }",
    "a walk over an array": (
        "for (int j = 0; j < 3; j++) { float x[8];\nfor (thread float *p = x; p < x + 8; p++) *p = j;\n"
        "a[i] += x[k[i] & 7]; }"
    ),
    "arrays in turn": (
        "float one[4] = {1, 2, 3, 4}, two[4];\nthread float *p = one, *q = two;\n"
        "for (int j = 0; j < 3; j++) { for (int n = 0; n < 4; n++) q[n] = p[n] + k[i];\n"
        "thread float *x = p; p = q; q = x; }\na[i] = p[k[i] & 3];"
    ),
    "a pointer to an outer variable": (
        "float y = 0;\nHolder h;\nfor (int j = 0; j < 3; j++) { float x = j; keep(h, y); *h.p += x; }\na[i] = *h.p;"
    ),
    "a pointer through a function": "{ float x = k[i]; a[i] = *same(&x); }",
}
