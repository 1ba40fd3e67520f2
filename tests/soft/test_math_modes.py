"""What each math mode may do to the same expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal

from .objects_kit import array, buffer, default_device, finish

SOURCE = """kernel void k(device float* x) {
  x[0] = x[0] * x[0] - x[1];
  x[2] = (x[2] + 1e8f) - 1e8f;
  x[3] = metal::isnan(x[3]) && metal::isinf(1.0f / x[4]) ? 1.0f : 0.0f;
}"""


@pytest.mark.parametrize(
    ("mode", "rounds"),
    [(Metal.MTLMathModeSafe, True), (Metal.MTLMathModeRelaxed, False), (Metal.MTLMathModeFast, False)],
)
def test_modes(mode: int, rounds: bool) -> None:
    device: Any = default_device()
    options = Metal.MTLCompileOptions.alloc().init()
    options.setMathMode_(mode)
    library, error = device.newLibraryWithSource_options_error_(SOURCE, options, None)
    assert library is not None, error
    state, error = device.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_("k"), None)
    assert state is not None, error
    x = np.float32(1.0001)
    values = buffer(np.float32([x, x * x, 3, np.nan, 0]))
    command_buffer = device.newCommandQueue().commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    encoder.setComputePipelineState_(state)
    encoder.setBuffer_offset_atIndex_(values, 0, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((1, 1, 1), (1, 1, 1))
    encoder.endEncoding()
    finish(command_buffer)
    fused, reordered, special = array(values)[[0, 2, 3]]
    assert special == 1
    if rounds:
        assert (fused, reordered) == (0, 0)
    else:
        assert reordered in (0, 3)  # allowed, not required
