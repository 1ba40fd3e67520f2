"""Hints for CUDA and OpenCL code in a source that does not compile as MSL."""

from __future__ import annotations

import re

__all__ = ["hint"]

_CUDA = {
    "__global__": "kernel",
    "__device__": "nothing: any function can be called from a kernel",
    "__shared__": "threadgroup",
    "__syncthreads": "threadgroup_barrier(mem_flags::mem_threadgroup)",
    "__syncwarp": "simdgroup_barrier(mem_flags::mem_none)",
    "__shfl_down_sync": "simd_shuffle_down",
    "__shfl_xor_sync": "simd_shuffle_xor",
    "atomicAdd": "atomic_fetch_add_explicit on a device atomic_uint * or atomic_float *",
    "threadIdx": "a parameter `uint3 t [[thread_position_in_threadgroup]]`",
    "blockIdx": "a parameter `uint3 g [[threadgroup_position_in_grid]]`",
    "blockDim": "a parameter `uint3 n [[threads_per_threadgroup]]`",
    "gridDim": "a parameter `uint3 n [[threadgroups_per_grid]]`",
}
_OPENCL = {
    "__kernel": "kernel",
    "__global": "device",
    "__local": "threadgroup",
    "__constant": "constant",
    "get_global_id": "a parameter `uint i [[thread_position_in_grid]]`",
    "get_local_id": "a parameter `uint t [[thread_position_in_threadgroup]]`",
    "get_group_id": "a parameter `uint g [[threadgroup_position_in_grid]]`",
    "get_local_size": "a parameter `uint n [[threads_per_threadgroup]]`",
    "get_global_size": "a parameter `uint n [[threads_per_grid]]`",
    "barrier(CLK_LOCAL_MEM_FENCE)": "threadgroup_barrier(mem_flags::mem_threadgroup)",
}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def hint(source: str) -> str:
    """The MSL equivalents of CUDA or OpenCL words in a source; empty if it has none.

    >>> print(hint("__kernel void f() {}"))
    This looks like OpenCL C. Metal's language has other words:
      __kernel: kernel
    """
    code = _COMMENT.sub(" ", source)
    for language, words in (("CUDA", _CUDA), ("OpenCL C", _OPENCL)):
        foreign = [word for word in words if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", code)]
        if foreign:
            lines = "\n".join(f"  {word}: {words[word]}" for word in foreign)
            return f"This looks like {language}. Metal's language has other words:\n{lines}"
    return ""
