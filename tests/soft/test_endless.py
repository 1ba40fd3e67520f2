"""Loops that never end, with effects or without: they run until the watchdog stops them, on every engine."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from mlx_native_py import softmetal as Metal

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
BODIES = {
    "nothing": "while (true) {}",
    "nothing-then-a-store": "for (;;) {} out[i] = 1;",
    "a-counter": "uint n = i; while (true) { n = n * 5 + 1; } out[i] = n;",
    "a-condition": "uint n = uint(out[i]) + 2; while (n != 1) { n = n * 4; } out[i] = 1;",
    "an-unused-result": "uint n = uint(out[i]) + 2; while (n != 1) { n = n * 4; }",
    "some-threads": "if (i % 2) while (true) {} out[i] = simd_sum(1.0f);",
}


@cache
def device(engine: str) -> Any:
    return Metal.open_device(Metal.SoftOptions(watchdog_seconds=0.3, engine=engine))  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["flat", "fibers", "lanes"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_it_times_out(engine: str, body: str) -> None:
    source = f"{HEAD}kernel void k(device float* out, uint i [[thread_position_in_grid]]) {{ {body} }}"
    library, error = device(engine).newLibraryWithSource_options_error_(source, None, None)
    assert library is not None, error
    function = library.newFunctionWithName_("k")
    pipeline, error = device(engine).newComputePipelineStateWithFunction_error_(function, None)
    assert pipeline is not None, error
    commands = device(engine).newCommandQueue().commandBuffer()
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(pipeline)
    encoder.setBuffer_offset_atIndex_(device(engine).newBufferWithLength_options_(4096, 0), 0, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((64, 1, 1), (64, 1, 1))
    encoder.endEncoding()
    commands.commit()
    commands.waitUntilCompleted()
    assert "timeout" in commands.error().localizedDescription()
