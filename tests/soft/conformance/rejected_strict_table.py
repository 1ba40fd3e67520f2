"""Programs that plain C++ takes and Apple's compiler refuses: inputs that do not agree, types, builtins, atomics."""

from __future__ import annotations

from .rejected_table import Refused


def inputs(name: str, declarations: str, pattern: str) -> Refused:
    return Refused(f"inputs-{name}", f"kernel void k(device float* out,\n{declarations}) {{ }}", pattern)


SAME_WIDTH = "either all scalar types or all vector types"
SAME_TYPE = "must have the same type"

INPUTS = (
    inputs(
        "vector-and-scalar",
        "uint3 at [[threadgroup_position_in_grid]],\nuint n [[threads_per_threadgroup]] // HERE\n",
        SAME_WIDTH,
    ),
    inputs(
        "scalar-and-vector",
        "uint at [[thread_position_in_grid]],\nuint3 n [[threads_per_grid]] // HERE\n",
        SAME_WIDTH,
    ),
    inputs(
        "widths",
        "uint2 at [[thread_position_in_grid]],\nuint3 g [[threadgroup_position_in_grid]] // HERE\n",
        SAME_WIDTH,
    ),
    inputs(
        "widths-of-vec",
        "vec<uint, 2> at [[thread_position_in_grid]],\nushort3 g [[thread_position_in_threadgroup]] // HERE\n",
        SAME_WIDTH,
    ),
    inputs(
        "ushort-and-uint-of-the-grid",
        "uint3 at [[thread_position_in_grid]],\nushort3 n [[threads_per_grid]] // HERE\n",
        SAME_TYPE,
    ),
    inputs(
        "ushort-and-uint-of-the-threadgroup",
        "ushort at [[thread_position_in_threadgroup]],\nuint n [[threads_per_threadgroup]] // HERE\n",
        SAME_TYPE,
    ),
    inputs(
        "ushort-and-uint-of-threadgroups",
        "ushort2 at [[threadgroup_position_in_grid]],\nuint2 n [[threadgroups_per_grid]] // HERE\n",
        SAME_TYPE,
    ),
    inputs(
        "simd-width-twice",
        "uint a [[thread_execution_width]],\nuint b [[threads_per_simdgroup]] // HERE\n",
        "thread_execution_width",
    ),
)
