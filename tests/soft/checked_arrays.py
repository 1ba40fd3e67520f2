"""Programs that reach outside of their arrays."""

from __future__ import annotations

from mlx_native_py.softmetal.checked import OutOfBounds

from .checked_programs import AB, SYNC, Program

_TWO = "threadgroup float s[64];\nthreadgroup float u[64];\nu[t] = 0; "
_FOUR = "float p[4];\nfor (int k = 0; k < 4; k++) p[k] = a[(i + k) % 64];\n"
ARRAYS_OUTSIDE = [
    Program(
        "past a private array",
        _FOUR + "b[i] = p[i];",
        AB,
        OutOfBounds,
        ["access by index 4 of array (float[4])", "(4, 0, 0)", "b[i] = p[i];"],
        ("p[i]", "p[i % 4]"),
        fields={"place.space": "private memory", "array.index": 4},
    ),
    Program(
        "before a private array",
        _FOUR + "p[int(i) - 1] = 3; b[i] = p[a[0] > 0];",
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
        ["write of 4 bytes by index 64 of array 's' (float[64])", "byte offset 256", "another variable's"],
        ("s[t + 64]", "s[t]"),
        fields={"place.space": "threadgroup memory", "array.variable": "s"},
    ),
    Program(
        "from one threadgroup variable into the one before",
        _TWO + f"s[t] = a[i]; {SYNC} b[i] = s[t] + u[int(t) - 1];",
        AB,
        OutOfBounds,
        ["read of 4 bytes by index -1 of array 'u'", "byte offset 252"],
        ("int(t) - 1", "t"),
    ),
]
