"""Bit-fields, unions and large arrays with padding that are read before they have a value, and such that are right."""

from __future__ import annotations

from .checked_private import BRANCH, STORE, unwritten

_TYPES = """
struct Mixed { uchar c; uint one : 4; uint : 3; uint two : 9; float f; };
struct Signed { int s : 5; int r : 7; bool f : 1; bool g : 1; };
enum class Kind : uchar { one, two };
struct Enums { Kind x : 2; Kind y : 3; uint : 0; uint z : 32; };
struct Base { uint q : 3; };
struct Derived : Base { uint r : 3; };
union Small { uchar c; float f; };
union Point { struct { float x, y, z; }; float v[3]; };
struct Tagged { int tag; union { float f; int n; }; uchar end; };
struct Big { Padded p[1500]; int n; };
struct Rows { Padded p[1100]; };
union Table { Padded p[2000]; float f; };
"""
_FAULTS = {
    # name: body, variable, use, what is put right
    "bits": ("Bits x;\nx.low = k[i] & 7;\na[i] = x.high;", "x", STORE, ("= x.high", "= x.low")),
    "bits on one way only": (
        "Bits x;\nif (k[i] > 4) x.low = 1;\nx.high = 2;\na[i] = x.low + x.high;",
        "x",
        STORE,
        ("if (k[i] > 4)", ""),
    ),
    "bits that decide": ("Bits x;\nx.low = k[i] & 7;\nif (x.high) a[i] = 2;", "x", BRANCH, ("(x.high)", "(x.low)")),
    "bits among members": (
        "Mixed x;\nx.one = k[i] & 7;\nx.f = 1;\nx.c = 3;\na[i] = x.one + x.two;",
        "x",
        STORE,
        ("+ x.two", "+ x.c"),
    ),
    "bits with a sign": ("Signed x;\nx.s = k[i] - 8;\na[i] = x.r;", "x", STORE, ("= x.r", "= x.s")),
    "a flag of one bit": ("Signed x;\nx.f = k[i] > 8;\nif (x.g) a[i] = 1;", "x", BRANCH, ("(x.g)", "(x.f)")),
    "bits of a base": ("Derived x;\nx.r = k[i] & 7;\na[i] = x.q;", "x", STORE, ("= x.q", "= x.r")),
    "a union": ("Either x;\na[i] = x.f;", "x", STORE, ("Either x;", "Either x;\nx.u = 2;")),
    "a union on one way only": ("Either x;\nif (k[i] > 3) x.f = 1;\na[i] = x.u;", "x", STORE, ("(k[i] > 3)", "(true)")),
    "a union of a struct": (
        "Tagged x;\nx.tag = 1;\nx.end = 2;\nif (k[i] > 3) x.n = 1;\na[i] = x.f;",
        "x",
        STORE,
        ("(k[i] > 3)", "(true)"),
    ),
    "a union in an array": (
        "Either x[4];\nx[k[i] & 3].f = 1;\na[i] = x[(k[i] + 1) & 3].f;",
        "x",
        STORE,
        ("(k[i] + 1)", "k[i]"),
    ),
    "a member in a union": ("Point x;\nx.x = x.z = 1;\na[i] = x.v[k[i] % 3];", "x", STORE, ("x.x =", "x.x = x.y =")),
    "a large array with padding": (
        "Padded x[2000];\nfor (int j = 0; j < 2000; j++) x[j].c = j;\nx[k[i]].f = 1;\na[i] = x[k[i] + 1].f;",
        "x",
        STORE,
        ("k[i] + 1", "k[i]"),
    ),
    "a large array with padding, in a struct": (
        "Big x;\nfor (int j = 0; j < 1500; j++) x.p[j].c = j;\nx.p[k[i]].f = 1;\na[i] = x.p[k[i] + 1].f;",
        "x",
        STORE,
        ("k[i] + 1", "k[i]"),
    ),
    "large arrays with padding, in an array": (
        "Rows x[3];\nfor (int j = 0; j < 1100; j++) x[2].p[j].c = j;\nx[2].p[k[i]].f = 1;\na[i] = x[2].p[k[i] + 1].f;",
        "x",
        STORE,
        ("k[i] + 1", "k[i]"),
    ),
}
BITS_UNWRITTEN = unwritten(_FAULTS, _TYPES)

BITS_LEGAL = {
    "bits beside others without a value": "Bits x;\nx.low = k[i] & 7;\na[i] = x.low;\nif (x.low > 3) a[i] = 2;",
    "bits above others without a value": (
        "Bits x;\nx.high = k[i] & 7;\na[i] = x.high;\nif (x.high) a[i] = 2;\nif (x.high > 5) a[i] = 7;\n"
        "if (x.high >= 8) a[i] = 7;\nif (x.high < 4) a[i] = 1;\nif (x.high > 2 && x.high < 6) a[i] += 1;"
    ),
    "bits that are compared": (
        "Bits x, y;\nx.high = k[i] & 7;\ny.high = k[0] & 3;\na[i] = x.high ^ y.high;\nif (x.high == y.high) a[i] = 1;\n"
        "if (x.high < y.high) a[i] = 2;\nif (x.high - y.high > 3) a[i] += 3;"
    ),
    "bits of an array": (
        "Bits x[4];\nfor (int j = 0; j < 4; j++) x[j].high = k[j] & 7;\nuint sum = 0;\nfor (int j = 0; j < 4; j++) {\n"
        "sum += x[(j + k[i]) & 3].high;\nif (x[j].high > 2 && x[j].high < 6) sum++;\n"
        "if (x[j].high == x[k[i] & 3].high) sum++;\nif (x[j].high < x[k[i] & 3].high) sum++; }\na[i] = sum;"
    ),
    "bits with a sign, above others": (
        "Signed x;\nx.r = k[i] - 8;\na[i] = x.r;\nif (x.r < -2) a[i] = 1;\nif (x.r >= 3 && x.r != 7) a[i] += x.r * 2;"
    ),
    "flags": ("Signed x;\nx.g = k[i] > 8;\nx.f = !x.g;\nif (x.g || x.f) a[i] = 1;\na[i] += x.f == x.g;"),
    "an enumeration in bits": (
        "Enums x;\nx.y = k[i] > 8 ? Kind::one : Kind::two;\nx.z = k[i];\n"
        "switch (x.y) { case Kind::one: a[i] = 1; break; case Kind::two: a[i] = x.z; }"
    ),
    "bits that count": (
        "Bits x;\nx.low = 0;\nx.high = 1;\nfor (int j = 0; j < k[i]; j++) { x.low++; x.high += 2; }\n"
        "a[i] = x.low + x.high;"
    ),
    "bits that others see": "Bits x;\nx.low = k[i] & 7;\nx.high = 3;\nBits y = x;\n((device Bits *)a)[i] = y;",
    "bits and members that others see": (
        "Mixed x;\nx.one = k[i] & 7;\nx.two = 5;\nx.f = 1;\nx.c = 3;\nif (i < 16) ((device Mixed *)a)[i] = x;"
    ),
    "a union that others see": "Either x;\nx.f = k[i];\nif (i < 32) ((device Either *)a)[i] = x;",
    "a union byte by byte": "Either x;\nfor (int j = 0; j < 4; j++) x.bytes[j] = k[i];\na[i] = x.f;",
    "more of a union than was written": "Small x;\nx.c = k[i];\na[i] = x.f;",
    "a union in a struct that others see": (
        "Tagged x;\nx.tag = 1;\nx.f = k[i];\nx.end = 3;\nif (i < 16) ((device Tagged *)a)[i] = x;"
    ),
    "a union, by its array": "Point x;\nfor (int j = 0; j < 3; j++) x.v[j] = k[i];\na[i] = x.x + x.y + x.z;",
    "a union with a large array": "Table x;\nx.p[k[i]].f = 3;\na[i] = x.p[k[i]].f + x.f;",
    "an element of a large array that others see": (
        "Padded x[2000];\nfor (int j = 0; j < 2000; j++) x[j].c = j;\nx[k[i]].f = 1;\n"
        "if (i < 32) ((device Padded *)a)[i] = x[k[i]];"
    ),
    "an element of large arrays that others see": (
        "Rows x[3];\nfor (int j = 0; j < 1100; j++) x[2].p[j].c = j;\nx[2].p[k[i]].f = 1;\n"
        "if (i < 32) ((device Padded *)a)[i] = x[2].p[k[i]];"
    ),
}
