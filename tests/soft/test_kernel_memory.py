"""Memory as kernels use it: vectors at any element, lanes in step, access of bindings, empty threadgroup memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from . import lanes_kit as kit
from .harness import Metal, device, library, pipeline, run

HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"


@pytest.mark.parametrize(
    ("parameter", "access"),
    [
        ("device float* constant* p", Metal.MTLBindingAccessReadOnly),
        ("device float* constant& p", Metal.MTLBindingAccessReadOnly),
        ("device float* const device* p", Metal.MTLBindingAccessReadOnly),
        ("device float* device* p", Metal.MTLBindingAccessReadWrite),
        ("const device float* device* p", Metal.MTLBindingAccessReadWrite),
        ("constant float* device* p", Metal.MTLBindingAccessReadWrite),
        ("const device float* p", Metal.MTLBindingAccessReadOnly),
        ("device float* const p", Metal.MTLBindingAccessReadWrite),
    ],
)
def test_access_is_that_of_the_bound_memory(parameter: str, access: int) -> None:
    source = f"{HEADER}kernel void k({parameter} [[buffer(0)]]) {{}}"
    function = library(source).newFunctionWithName_("k")
    options = Metal.MTLPipelineOptionBindingInfo
    _, reflection, _ = device().newComputePipelineStateWithFunction_options_reflection_error_(
        function, options, None, None
    )
    assert [binding.access() for binding in reflection.bindings()] == [access]


@pytest.mark.parametrize("checked", [False, True])
def test_unused_threadgroup_argument_of_no_length(checked: bool) -> None:
    source = (
        f"{HEADER}kernel void k(threadgroup float* t [[threadgroup(0)]], device float* a [[buffer(0)]]) {{ a[0] = 1; }}"
    )
    assert pipeline(source, "k") is not None
    assert run(source, "k", np.zeros(1, np.float32), threads=1, shared=[0], checked=checked)[0] == 1


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("kind", ["float4", "uint4", "float2x4", "float4x4", "int3"])
def test_vectors_at_any_element(kind: str, checked: bool) -> None:
    """An address need be no multiple of the vector's size, in any memory, on either engine."""
    scalar = kind.rstrip("x234")
    source = f"""{HEADER}
kernel void flat(const device {scalar}* a, device {scalar}* b, uint i [[thread_position_in_grid]]) {{
  *(device {kind}*)(b + 1 + 17 * i) = *(const device {kind}*)(a + 3 + 17 * i);
}}
kernel void waiting(const device {scalar}* a, device {scalar}* b, threadgroup {scalar}* t [[threadgroup(0)]],
                    uint i [[thread_position_in_grid]]) {{
  *(threadgroup {kind}*)(t + 2 + 17 * i) = *(const device {kind}*)(a + 3 + 17 * i);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  *(device {kind}*)(b + 1 + 17 * i) = *(threadgroup {kind}*)(t + 2 + 17 * i);
}}
"""
    size = {"float4": 4, "uint4": 4, "float2x4": 8, "float4x4": 16, "int3": 3}[kind]
    given = np.arange(180, dtype={"float": np.float32, "uint": np.uint32, "int": np.int32}[scalar])
    for kernel, shared in (("flat", ()), ("waiting", (1024,))):
        result = run(source, kernel, given, np.zeros_like(given), threads=10, shared=shared, checked=checked)[1]
        for i in range(10):
            assert (result[17 * i + 1 :][:size] == given[17 * i + 3 :][:size]).all()


@pytest.mark.parametrize("threads", [32, 64, 40])
def test_lowest_lane_overwrites_what_the_others_still_read(threads: int) -> None:
    """On a GPU the lanes of a simdgroup run in step; kernels count on it where the first one stores a result."""
    source = f"""{HEADER}
kernel void k(device float* a, uint i [[thread_position_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
              uint group [[simdgroup_index_in_threadgroup]]) {{
  threadgroup float shared[2];
  threadgroup float* own = shared + group;
  if (lane == 0) *own = 1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float total = 0;
  for (int round = 0; round < 4; round++) {{
    float seen = *own;
    if (lane == 0) *own = seen * 2;
    total += seen;
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }}
  a[i] = total;
}}
"""
    assert run(source, "k", np.zeros(threads, np.float32), threads=threads, group=threads)[0].tolist() == [15] * threads


@pytest.mark.parametrize("engine", ["fibers", "lanes"])
@pytest.mark.parametrize("threads", [32, 96])
def test_lanes_overwrite_what_their_matrix_was_loaded_from(engine: Any, threads: int) -> None:
    """A load of a simdgroup matrix is over for all lanes at once; kernels stage the next tile without a barrier."""
    source = """
kernel void k(device const float* a, device float* out, uint lane [[thread_index_in_simdgroup]],
              uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float shared[3][64];
  threadgroup float* tile = shared[group];
  simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8>(0), one = make_diagonal_simdgroup_matrix<float, 8>(1);
  for (int round = 0; round < 4; round++) {
    for (uint n = lane; n < 64; n += 32) tile[n] = a[round * 64 + n];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 loaded;
    simdgroup_load(loaded, tile, 8);
    simdgroup_multiply_accumulate(sum, loaded, one, sum);
  }
  simdgroup_store(sum, out + group * 64, 8);
}
"""
    given = np.arange(256, dtype=np.float32)
    out = kit.run(source, [given, np.zeros(threads * 2, np.float32)], (threads, 1, 1), (threads, 1, 1), engine)[1]
    want = np.tile(given.reshape(4, 64).sum(axis=0), threads // 32)
    np.testing.assert_array_equal(out, want)
