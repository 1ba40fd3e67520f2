"""Kernel names: host_name and explicit instantiation in the forms used in the wild."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .program import Program, zeros

_SOURCE = """
template <typename T, int N> [[kernel]] void scaled(device const T* a [[buffer(0)]], device T* out [[buffer(1)]],
    uint i [[thread_position_in_grid]]) {
  out[i] = a[i] * T(N);
}
typedef decltype(scaled<float, 2>) scaled_float;
template [[host_name("by_typedef")]] kernel scaled_float scaled<float, 2>;
template [[host_name("by_decltype")]] [[kernel]] decltype(scaled<int, 3>) scaled<int, 3>;
#define STRING(x) #x
#define instantiate(name, type, n) template [[host_name("sc" "aled_" name "_" STRING(n))]] [[kernel]] \\
    decltype(scaled<type, n>) scaled<type, n>;
instantiate("half", half, 4)
instantiate("bf16", bfloat, 5)
instantiate("uchar", uint8_t, 6)
template [[host_name("in_full")]] kernel void scaled<float, 7>(device const float* a [[buffer(0)]], device float*
    out [[buffer(1)]], uint i [[thread_position_in_grid]]);

template <typename T> kernel void deduced(device const T* a, device T* out, uint i [[thread_position_in_grid]]) {
    out[i] = a[i] + T(1); }
template [[host_name("deduced_short")]] kernel void deduced(device const short* a, device short* out, uint i);

[[host_name("renamed")]] kernel void plain_name(device const float* a, device float* out, uint i
    [[thread_position_in_grid]]) { out[i] = -a[i]; }
[[kernel]] void k(device const float* a, device float* out, uint i [[thread_position_in_grid]]) { out[i] = a[i] +
    0.5f; }
[[max_total_threads_per_threadgroup(128)]] kernel void limited(device const float* a, device float* out, uint i
    [[thread_position_in_grid]]) { out[i] = a[i] - 1; }

namespace inside { template <typename T> struct Op { T operator()(T v) { return v * v; } }; }
template <typename T, template <typename> class F, typename U = T, bool Negate = false>
[[kernel]] void generic_op(device const T* a, device U* out, uint i [[thread_position_in_grid]]) { U r =
    U(F<T>()(a[i])); out[i] = Negate ? -r : r; }
template [[host_name("op_default")]] [[kernel]] decltype(generic_op<float, inside::Op>) generic_op<float, inside::Op>;
template [[host_name("op_negated")]] [[kernel]] decltype(generic_op<int, inside::Op, float, true>) generic_op<int,
    inside::Op, float, true>;
"""

_KERNELS: tuple[tuple[str, Any, Any, Callable[[Any], Any]], ...] = (
    ("by_typedef", np.float32, np.float32, lambda a: a * 2),
    ("by_decltype", np.int32, np.int32, lambda a: a * 3),
    ("scaled_half_4", np.float16, np.float16, lambda a: a * 4),
    ("scaled_uchar_6", np.uint8, np.uint8, lambda a: a * 6),
    ("in_full", np.float32, np.float32, lambda a: a * 7),
    ("deduced_short", np.int16, np.int16, lambda a: a + 1),
    ("renamed", np.float32, np.float32, lambda a: -a),
    ("k", np.float32, np.float32, lambda a: a + 0.5),
    ("limited", np.float32, np.float32, lambda a: a - 1),
    ("op_default", np.float32, np.float32, lambda a: a * a),
    ("op_negated", np.int32, np.float32, lambda a: -a * a),
)


def all_programs() -> list[Program]:
    lanes = np.arange(12)
    return [
        Program(
            f"name-{name}",
            _SOURCE,
            [lanes.astype(kind), zeros(12, result)],
            {"out": (1, f(lanes))},
            threads=12,
            group=4,
            kernel=name,
        )
        for name, kind, result, f in _KERNELS
    ]
