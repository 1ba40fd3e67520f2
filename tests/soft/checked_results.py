"""Functions that come to their end without `return`, and what puts them right."""

from __future__ import annotations

import numpy as np

from mlx_native_py.softmetal.checked import UninitialisedRead

from .checked_private import KEYS, PARAMS, STRUCTS
from .checked_programs import Program

_FAULTS = {
    # the function, how it begins, its call, what is to be returned at its end
    "a number": ("f", "static float f(int n) {\n  if (n > 4) return 2;", "f(k[i])", "1"),
    "a struct": (
        "f",
        "static Pair f(int n) {\n  if (n > 4) return Pair{1, 2};",
        "f(k[i]).y",
        "Pair{}",
    ),
    "a large struct": ("f", "static Nested f(int n) {\n  if (n > 4) return Nested{};", "f(k[i]).p[1].y", "Nested{}"),
    "after a loop": (
        "f",
        "static float3 f(int n) {\n  for (int j = 0; j < n; j++) if (j == 9) return j;",
        "f(k[i]).y",
        "0",
    ),
    "after a switch": (
        "chosen",
        "template <class T> static T chosen(int n) {\n  switch (n) { case 0: return T(1); case 1: return T(2); }",
        "chosen<half>(k[i])",
        "3",
    ),
    "not inlined": ("f", "__attribute__((noinline)) static int f(int n) {\n  if (n > 4) return 2;", "f(k[i])", "1"),
    "calls itself": (
        "down",
        "static int down(int n) {\n  if (n > 3) return down(n - 1);\n  if (n == 0) return 1;",
        "down(k[i])",
        "3",
    ),
    "member": ("f", "struct H { int n; int f() const {\n  if (n > 4) return n;", "H{k[i]}.f()", "3"),
    "operator": (
        "operator()",
        "struct H { int n; float operator()(float x) const {\n  if (n > 4) return x;",
        "H{k[i]}(2)",
        "3",
    ),
    "not used": ("f", "static float f(int n) {\n  if (n > 4) return 2;", "1; f(k[i])", "1"),
    "by a loop that ends": ("f", "static int f(int n) {\n  while (n-- > 0) if (n == 40) return n;", "f(k[i])", "3"),
}


def _definition(name: str, beginning: str) -> str:
    return f"{STRUCTS}{beginning}\n  /*end*/\n}}{'};' if name in ('member', 'operator') else ''}\n"


MISSING_RESULTS = [
    Program(
        f"result: {name}",
        f"a[i] = {call};",
        (np.zeros(64, np.float32), KEYS),
        UninitialisedRead,
        [
            f"the result of {function!r} has no value",
            "came to its end without `return`",
            "program_source:",
            beginning.split("\n")[0],
            "^",
        ],
        ("/*end*/", f"return {value};"),
        PARAMS,
        _definition(name, beginning),
        fields={"place.space": "private memory", "place.name": function, "access.group": (0, 0, 0)},
    )
    for name, (function, beginning, call, value) in _FAULTS.items()
]
