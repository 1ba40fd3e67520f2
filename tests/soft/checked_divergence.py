"""Programs with barriers that not all threads of a threadgroup come to."""

from __future__ import annotations

from mlx_native_py.softmetal.checked import DivergentBarrier

from .checked_programs import AB, SYNC, VARIABLE, Program

_FIRST, _OTHERS = VARIABLE + "s[t] = a[i];\n", "b[i] = s[t];"


def _program(name: str, body: str, thread: int, other: int, fix: tuple[str, str], line: str = SYNC) -> Program:
    fields = {"group": (0, 0, 0), "thread": (thread, 0, 0), "other": (other, 0, 0)}
    text = [f"thread ({thread}, 0, 0) of threadgroup (0, 0, 0) waits at a barrier, and thread ({other}, 0, 0) "]
    return Program(name, _FIRST + body, AB, DivergentBarrier, text, fix, fields=fields, line=line)


BARRIERS_MISSED = [
    _program(
        "a thread returned before the barrier",
        f"if (t == 40) return;\n{SYNC}\n{_OTHERS}",
        0,
        40,
        ("if (t == 40) return;", ""),
        line="if (t == 40) return;",
    ),
    _program(
        "a thread went past the barrier, after a lambda's return",
        f"auto odd = [&](uint n) {{ if (n == 50) return; b[i] = n; }};\nodd(t);\nif (t < 50) {{\n{SYNC}\n{_OTHERS} }}",
        0,
        50,
        ("t < 50", "t < 64"),
    ),
    _program(
        "a simdgroup returned before the barrier",
        f"if (t >= 32)\n  return;\n{SYNC}\n{_OTHERS}",
        0,
        32,
        ("if (t >= 32)\n  return;", ""),
        line="  return;",
    ),
    _program(
        "the first returned before the barrier",
        f"if (t < 3) return;\n{SYNC}\n{_OTHERS}",
        3,
        0,
        ("if (t < 3) return;", ""),
        line="if (t < 3) return;",
    ),
    _program(
        "a thread reached the end without the barrier",
        f"if (t < 50) {{\n{SYNC}\n{_OTHERS} }}",
        0,
        50,
        ("t < 50", "t < 64"),
    ),
    _program(
        "a thread returned in the second round",
        f"for (int n = 0; n < 3; n++) {{\n{SYNC}\nif (n == 1 && t == 9) return;\n}}\n{_OTHERS}",
        0,
        9,
        ("n == 1 && t == 9", "n == 2"),
        line="if (n == 1 && t == 9) return;",
    ),
    _program(
        "a branch of some threads",
        f"if (t < 10) {{\n{SYNC}\n}} else {{ {SYNC} }}\n{_OTHERS}",
        10,
        0,
        ("t < 10", "t < 64"),
    ),
]
