"""Function constants in all their forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .layout import SCALARS
from .program import Program, zeros


def _typed(scalar: str, value: Any) -> Program:
    """One scalar type by index."""
    body = f"constant {scalar} fc [[function_constant(3)]];\n"
    body += f"kernel void k(device {scalar}* out) {{ out[0] = fc; out[1] = fc; }}"
    dtype = SCALARS[scalar]
    typed = np.array([value]).astype(dtype)
    return Program(
        f"constant-{scalar}",
        body,
        [zeros(2, dtype)],
        {"value": (0, np.repeat(typed, 2))},
        threads=1,
        group=1,
        constants={3: typed[0]},
    )


def _vector(kind: str, values: list[float]) -> Program:
    scalar, width = kind[:-1], int(kind[-1])
    dtype = SCALARS[scalar]
    stores = " ".join(f"out[{n}] = fc[{n}];" for n in range(width))
    body = f"constant {kind} fc [[function_constant(0)]];\nkernel void k(device {scalar}* out) {{ {stores} }}"
    typed = np.array(values).astype(dtype)
    return Program(
        f"constant-{kind}", body, [zeros(width, dtype)], {"value": (0, typed)}, threads=1, group=1, constants={0: typed}
    )


_DERIVED = """
#define BASE 10
constant int a [[function_constant(BASE + 1)]];
constant bool flag [[function_constant(BASE + 2)]];
constant int twice = a * 2;
constant bool big = a > 5 && flag;
constant float ratio = float(a) / 4;
constant int unset [[function_constant(BASE + 3)]];
constant int safe = is_function_constant_defined(unset) ? unset : 77;
constant bool has_a = is_function_constant_defined(a);
kernel void k(device float* out) {
  int sizes[3] = {twice, safe, 1};
  out[0] = sizes[0]; out[1] = big; out[2] = ratio; out[3] = sizes[1]; out[4] = has_a;
  if (flag) { out[5] = 5; } else { out[5] = 6; }
  out[6] = is_function_constant_defined(unset) ? 1 : 2;
  switch (a) { case 8: out[7] = 80; break; default: out[7] = 1; }
}"""

_ARGUMENTS = """
constant bool use_b [[function_constant(0)]];
constant bool no_b = !use_b;
constant int n_value [[function_constant(1)]];
constant int n = is_function_constant_defined(n_value) ? n_value : 1;
kernel void k(device float* out [[buffer(0)]], device const float* b [[buffer(1), function_constant(use_b)]],
              device const float* c [[buffer(2)]] [[function_constant(no_b)]], uint i [[thread_position_in_grid]]) {
  if (use_b) out[i] = b[i] * n; else out[i] = c[i] + n;
}"""

_TEMPLATED = """
constant uint mode [[function_constant(7)]];
template <typename T> T pick(T a, T b) { return mode == 2 ? b : a; }
template <typename T> kernel void f(device T* out, uint i [[thread_position_in_grid]]) { out[i] = pick(T(i), T(i *
    10)); }
template [[host_name("f_float")]] kernel void f<float>(device float*, uint);
template [[host_name("f_int")]] kernel void f<int>(device int*, uint);
kernel void plain(device float* out) { out[0] = 4; }
"""


def _arguments(name: str, constants: dict[int | str, Any], want: Any) -> Program:
    b, c = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) + 100
    return Program(name, _ARGUMENTS, [zeros(8), b, c], {"out": (0, want)}, threads=8, group=8, constants=constants)


def _derived(result: dict[str, tuple[int, Any, int]], name: str, constants: dict[int | str, Any]) -> Program:
    return Program(name, _DERIVED, [zeros(8)], result, threads=1, group=1, constants=constants)


def all_programs() -> list[Program]:
    scalars = [
        ("bool", True),
        ("int", -5),
        ("uint", 2**32 - 1),
        ("float", 1.25),
        ("half", -2.5),
        ("short", -300),
        ("ushort", 65535),
    ]
    scalars += [("char", -7), ("uchar", 255), ("long", -(2**40)), ("ulong", 2**63)]
    vectors: list[tuple[str, list[float]]] = [
        ("int2", [1, -2]),
        ("uint3", [1, 2, 3]),
        ("float4", [1.5, 2, -3, 4]),
        ("half2", [0.5, -1]),
        ("bool2", [1, 0]),
        ("ushort4", [9, 8, 7, 6]),
    ]
    first = ["twice", "big", "ratio", "undefined-default", "defined", "flag-branch", "is-defined-in-body", "switch"]
    on = [16, 1, 2, 77, 1, 5, 2, 80]
    off = [6, 0, 0.75, 9, 1, 6, 1, 1]
    lanes = np.arange(8)
    return [
        *(_typed(*row) for row in scalars),
        *(_vector(*row) for row in vectors),
        _derived({n: (0, [on[k]], k) for k, n in enumerate(first)}, "derived", {11: np.int32(8), 12: np.bool_(True)}),
        _derived(
            {n: (0, [off[k]], k) for k, n in enumerate(first)},
            "derived-other",
            {11: np.int32(3), 12: np.bool_(False), 13: np.int32(9)},
        ),
        _derived({"by-name": (0, [16.0], 0)}, "named", {"a": np.int32(8), "flag": np.bool_(True)}),
        _arguments("argument-on", {0: np.bool_(True), 1: np.int32(3)}, lanes * 3),
        _arguments("argument-off", {0: np.bool_(False)}, lanes + 101),
        Program(
            "in-template",
            _TEMPLATED,
            [zeros(4)],
            {"out": (0, np.arange(4) * 10)},
            threads=4,
            group=4,
            kernel="f_float",
            constants={7: np.uint32(2)},
        ),
        Program(
            "in-template-int",
            _TEMPLATED,
            [zeros(4, np.int32)],
            {"out": (0, np.arange(4))},
            threads=4,
            group=4,
            kernel="f_int",
            constants={7: np.uint32(1)},
        ),
        Program("not-needed", _TEMPLATED, [zeros(1)], {"out": (0, [4])}, threads=1, group=1, kernel="plain"),
    ]
