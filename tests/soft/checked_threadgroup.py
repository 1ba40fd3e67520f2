"""Programs whose pointers run from one threadgroup variable or argument into another."""

from __future__ import annotations

from mlx_native_py.softmetal.checked import OutOfBounds

from .checked_programs import AB, SYNC, Program

_TWO = "threadgroup float s[64];\nthreadgroup float u[64];\ns[t] = a[i]; u[t] = 0;\n" + SYNC + "\n"
_ARGUMENTS = (
    "device float* a [[buffer(0)]], device float* b [[buffer(1)]], "
    "threadgroup float* s [[threadgroup(0)]], threadgroup float* u [[threadgroup(1)]]"
)
_FILLED = f"s[t] = a[i]; u[t] = 0;\n{SYNC}\n"
_INLINED = "static float at(threadgroup const float *p, int k) { return p[k]; }"
_APART = f"__attribute__((noinline)) {_INLINED}"
_SUM = """__attribute__((noinline)) static float total(threadgroup const float *p, int n) {
  return n ? p[n - 1] + total(p, n - 1) : 0;
}"""


def _variable(name: str, body: str, offset: int, fix: tuple[str, str], before: str = "", of: str = "s") -> Program:
    """A pointer to `s` or `u`, two variables of 256 bytes each."""
    fields = {"place.space": "threadgroup memory", "place.name": of, "place.offset": offset, "place.length": 256}
    text = [f"'{of}' (256 bytes)", f"byte offset {offset}"]
    line = next(line for line in reversed((before or body).splitlines()) if "p[" in line)
    return Program(name, _TWO + body, AB, OutOfBounds, text, fix, before=before, fields=fields, line=line)


def _argument(name: str, body: str, offset: int, fix: tuple[str, str], of: str = "s", slot: int = 0) -> Program:
    fields = {"place.space": "threadgroup memory", "place.name": of, "place.slot": slot, "place.offset": offset}
    text = [f"'{of}'", f"slot {slot}", "256 bytes", f"byte offset {offset}"]
    return Program(
        name, _FILLED + body, AB, OutOfBounds, text, fix, _ARGUMENTS, _APART, shared=(256, 256), fields=fields
    )


POINTERS_BETWEEN_VARIABLES = [
    _variable(
        "a pointer into the next threadgroup variable",
        "threadgroup float *p = s;\nb[i] = p[t + int(a[1])];",
        256,
        ("p[t + int(a[1])]", "p[t]"),
    ),
    _variable(
        "a pointer into the threadgroup variable before",
        "threadgroup float *p = u;\nb[i] = p[int(t) - int(a[8])];",
        -32,
        ("int(a[8])", "int(a[0])"),
        of="u",
    ),
    _variable(
        "a write by a pointer into the next threadgroup variable",
        "threadgroup float *p = s + 8;\np[t + int(a[1])] = 2;\nb[i] = u[t];",
        256,
        ("p[t + int(a[1])] = 2", "if (t < 8) p[t] = 2"),
    ),
    _variable(
        "a pointer that jumps over the next threadgroup variable",
        "threadgroup float *p = s;\nb[i] = p[t + 16 * int(a[8])];",
        512,
        ("16 * int(a[8])", "0"),
    ),
    _variable(
        "a function that leaves a threadgroup variable",
        "b[i] = at(s, 70 - int(a[2]));",
        272,
        ("70 -", "60 -"),
        _INLINED,
    ),
    _variable(
        "a function apart that leaves a threadgroup variable",
        "b[i] = at(s, 70 - int(a[2]));",
        272,
        ("70 -", "60 -"),
        _APART,
    ),
    _variable(
        "a function that calls itself and leaves a threadgroup variable",
        "b[i] = total(s, 64 + int(a[1]));",
        256,
        ("64 + int(a[1])", "int(a[5])"),
        _SUM,
    ),
    _variable(
        "a vector at the end of a threadgroup variable",
        "threadgroup packed_float4 *p = (threadgroup packed_float4 *)(s + 62);\nb[i] = p[int(a[0])].x + p[0].w;",
        260,
        ("s + 62", "s + 60"),
    ),
    Program(
        "an atomic past a threadgroup variable",
        "threadgroup atomic_uint c[4];\nthreadgroup uint z[4];\nz[t % 4] = 0;\n"
        "threadgroup atomic_uint *p = c;\natomic_store_explicit(p + (int(a[0]) + 4), 1, memory_order_relaxed);\n"
        f"{SYNC}\nb[i] = z[0];",
        AB,
        OutOfBounds,
        ["atomic write of 4 bytes", "'c'", "byte offset 16", "16 bytes"],
        ("+ 4), 1", "+ 3), 1"),
        threads=1,
        group=1,
        fields={"place.name": "c", "place.offset": 16},
    ),
    _argument(
        "from one threadgroup argument into the next",
        "b[i] = s[t + int(a[1])];",
        256,
        ("t + int(a[1])", "t"),
    ),
    _argument(
        "from one threadgroup argument into the one before",
        "b[i] = u[int(t) - int(a[1])];",
        -4,
        ("int(a[1])", "int(a[0])"),
        "u",
        1,
    ),
    _argument(
        "far from one threadgroup argument, in a function apart",
        "b[i] = at(s, 64 + int(a[60]));",
        496,
        ("64 + int(a[60])", "int(a[60])"),
    ),
]
