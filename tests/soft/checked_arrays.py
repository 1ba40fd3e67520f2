"""Programs that reach outside of their arrays."""

from __future__ import annotations

from mlx_native_py.softmetal.checked import OutOfBounds

from .checked_programs import AB, SYNC, Program

_TWO = "threadgroup float s[64];\nthreadgroup float u[64];\nu[t] = 0; "
FOUR = "float p[4];\nfor (int k = 0; k < 4; k++) p[k] = a[(i + k) % 64];\n"
_POINTED = "through a pointer, outside of the private variable or constant that it points to"
_HELPER = "float sum(thread const float *v, int n) { float s = 0; for (int k = 0; k < n; k++) s += v[k]; return s; }"

_APART = f"__attribute__((noinline)) {_HELPER}"
_OF = "__attribute__((noinline)) float of(float x, int n) { return (&x)[n]; }"
_AGAIN = """float walk(thread const float *v, int n) {
  return n > 0 ? v[n] + walk(v, n - 1) : v[0];
}"""
_PUT = "__attribute__((noinline)) void put(thread Held &h, int n) { h.p[n] = 1; }"


def through(name: str, body: str, text: str, fix: tuple[str, str], before: str = "") -> Program:
    """An array that is left by a pointer to it, which no index of the array tells of."""
    fields = {"place.space": "private memory"}
    return Program(name, body, AB, OutOfBounds, [_POINTED], fix, before=before, fields=fields, line=text)


def _watched(name: str, body: str, variable: str, fix: tuple[str, str]) -> Program:
    fields = {"place.space": "private memory", "place.name": variable}
    text = [f"through a pointer, outside of the private variable '{variable}' that it points to"]
    line = _AGAIN.splitlines()[1]
    return Program(name, body, AB, OutOfBounds, text, fix, before=_AGAIN, fields=fields, line=line)


_POINTERS_OUTSIDE = [
    through(
        "past a private array by a pointer",
        FOUR + "thread float *q = p;\nb[i] = q[int(a[4])];",
        "b[i] = q[int(a[4])];",
        ("[int(a[4])]", "[int(a[3])]"),
    ),
    through(
        "a write past a private array by a pointer",
        FOUR + "thread float *q = p + 1;\nq[int(a[3])] = 2;\nb[i] = p[i % 4];",
        "q[int(a[3])] = 2;",
        ("[int(a[3])] =", "[int(a[2])] ="),
    ),
    through(
        "before a private array by a pointer",
        FOUR + "thread float *q = p + 1;\nb[i] = q[-int(a[2])];",
        "b[i] = q[-int(a[2])];",
        ("[-int(a[2])]", "[-int(a[1])]"),
    ),
    through("in a function, past its array", FOUR + "b[i] = sum(p, int(a[5]));", _HELPER, ("a[5]", "a[4]"), _HELPER),
    through(
        "by a pointer that walks",
        FOUR + "float s = 0;\nfor (thread float *q = p; q <= p + int(a[4]); q++)\n  s += *q;\nb[i] = s;",
        "  s += *q;",
        ("q <=", "q <"),
    ),
    through(
        "a component that a vector has not",
        "float4 v = a[i];\nv[int(a[4])] = 2;\nb[i] = v.x + v.y;",
        "v[int(a[4])] = 2;",
        ("[int(a[4])]", "[int(a[3])]"),
    ),
    through(
        "a column that a matrix has not",
        "float4x4 m(a[i]);\nb[i] = m[int(a[4])].x;",
        "b[i] = m[int(a[4])].x;",
        ("a[4]", "a[3]"),
    ),
    through(
        "an index of the address of a number",
        "float x = a[i], y = 1;\nb[i] = (&x)[int(a[1])] + y;",
        "b[i] = (&x)[int(a[1])] + y;",
        ("a[1]", "a[0]"),
    ),
    through(
        "a write by an index of the address of a number",
        "float x = a[i], y = 1;\n(&x)[int(a[2])] = 3;\nb[i] = x + y;",
        "(&x)[int(a[2])] = 3;",
        ("a[2]", "a[0]"),
    ),
    through(
        "past a struct by a pointer to it",
        "Pair x = {a[i], 1};\nthread Pair *q = &x;\nb[i] = q[int(a[1])].y;",
        "b[i] = q[int(a[1])].y;",
        ("a[1]", "a[0]"),
        "struct Pair { float x, y; };",
    ),
    through(
        "past an array of one",
        "float p[1] = {a[i]};\nb[i] = sum(p, int(a[2]));",
        _HELPER,
        ("a[2]", "a[1]"),
        _HELPER,
    ),
    through(
        "past an argument of a function",
        "b[i] = of(a[i], int(a[1]));",
        _OF,
        ("a[1]", "a[0]"),
        _OF,
    ),
    through(
        "in a function apart, past its array",
        FOUR + "b[i] = sum(p, int(a[5]));",
        _APART,
        ("a[5]", "a[4]"),
        _APART,
    ),
    through(
        "in a function apart, by a pointer in a struct",
        FOUR + "Held h = {p};\nput(h, int(a[4]));\nb[i] = p[0];",
        _PUT,
        ("a[4]", "a[3]"),
        f"struct Held {{ thread float *p; }};\n{_PUT}",
    ),
    _watched(
        "past an array, in a function that calls itself",
        FOUR + "b[i] = walk(p, int(a[4]));",
        "p",
        ("a[4]", "a[3]"),
    ),
    _watched(
        "past a number, in a function that calls itself",
        "float x = a[i];\nb[i] = walk(&x, int(a[2]));",
        "x",
        ("a[2]", "a[0]"),
    ),
    _watched(
        "before an array, in a function that calls itself",
        FOUR + "thread float *q = p;\nb[i] = walk(q - int(a[2]), int(a[1]));",
        "p",
        ("a[2]", "a[0]"),
    ),
    through(
        "past metal::array",
        "array<float, 4> v = {a[0], 1, 2, 3};\nb[i] = v[int(a[4])];",
        "b[i] = v[int(a[4])];",
        ("a[4]", "a[3]"),
    ),
    through(
        "from one table into the next",
        "constant float *p = T;\nb[i] = p[int(a[4])] + U[i % 4];",
        "b[i] = p[int(a[4])] + U[i % 4];",
        ("a[4]", "a[3]"),
        "constant float T[4] = {1, 2, 3, 4}, U[4] = {5, 6, 7, 8};",
    ),
]
ARRAYS_OUTSIDE = [
    *_POINTERS_OUTSIDE,
    Program(
        "past a private array",
        FOUR + "b[i] = p[i];",
        AB,
        OutOfBounds,
        ["access by index 4 of array (float[4])", "(4, 0, 0)", "b[i] = p[i];"],
        ("p[i]", "p[i % 4]"),
        fields={"place.space": "private memory", "array.index": 4},
    ),
    Program(
        "before a private array",
        FOUR + "p[int(i) - 1] = 3; b[i] = p[a[0] > 0];",
        AB,
        OutOfBounds,
        ["index -1 of array (float[4])", "p[int(i) - 1] = 3"],
        ("int(i) - 1", "i % 4"),
    ),
    Program(
        "far past a private array of vectors",
        "float4 p[3] = {float4(a[i]), 1, 2};\np[int(a[0]) + 1000].x = 1;\nb[i] = p[i % 3].x;",
        AB,
        OutOfBounds,
        ["of array (float4[3])", "p[int(a[0]) + 1000].x = 1;\n^"],
        ("int(a[0]) + 1000", "i % 3"),
        fields={"source.column": 1},
    ),
    Program(
        "past the inner dimension",
        "float p[2][4];\nfor (int k = 0; k < 8; k++) p[k / 4][k % 4] = a[k];\nb[i] = p[i % 2][i];",
        AB,
        OutOfBounds,
        ["index 4 of array (float[4])"],
        ("[i];", "[i % 4];"),
    ),
    Program(
        "from one threadgroup variable into the next",
        _TWO + f"s[t + 64] = a[i]; {SYNC} b[i] = s[t] + u[t];",
        AB,
        OutOfBounds,
        ["write of 4 bytes by index 64 of array 's' (float[64])", "'s' (256 bytes)", "byte offset 256"],
        ("s[t + 64]", "s[t]"),
        fields={"place.space": "threadgroup memory", "array.variable": "s"},
    ),
    Program(
        "from one threadgroup variable into the one before",
        _TWO + f"s[t] = a[i]; {SYNC} b[i] = s[t] + u[int(t) - 1];",
        AB,
        OutOfBounds,
        ["read of 4 bytes by index -1 of array 'u'", "byte offset -4"],
        ("int(t) - 1", "t"),
    ),
]
