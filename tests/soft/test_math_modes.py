"""What each math mode may do to the same expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal

from . import lanes_kit as kit
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
    values = buffer(np.array([x, x * x, 3, np.nan, 0], np.float32))
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


PRAGMAS = {
    "": False,
    "#pragma METAL fp contract(off)": True,
    "#pragma METAL fp math_mode(safe)\n#pragma METAL fp contract(off)": True,
    "#pragma METAL fp contract(off)\n#pragma METAL fp contract(fast)": False,
}


@pytest.mark.parametrize("pragmas", PRAGMAS, ids=lambda text: " ".join(text.replace("#pragma METAL fp", "").split()))
def test_a_source_can_say_that_products_are_rounded(pragmas: str) -> None:
    source = f"""{pragmas}
    kernel void k(device const float *a, device const float *b, device float *out,
                  uint i [[thread_position_in_grid]]) {{
      out[i] = a[i] * a[i] - b[i];
    }}"""
    device: Any = default_device()
    library, error = device.newLibraryWithSource_options_error_(source, None, None)
    assert library is not None, error
    state, error = device.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_("k"), None)
    a = np.linspace(1, 2, 64, dtype=np.float32)
    buffers = [buffer(values) for values in (a, a * a, a)]
    command_buffer = device.newCommandQueue().commandBuffer()
    encoder = command_buffer.computeCommandEncoder()
    encoder.setComputePipelineState_(state)
    for slot, each in enumerate(buffers):
        encoder.setBuffer_offset_atIndex_(each, 0, slot)
    encoder.dispatchThreads_threadsPerThreadgroup_((64, 1, 1), (64, 1, 1))
    encoder.endEncoding()
    finish(command_buffer)
    assert (array(buffers[2]) == 0).all() == PRAGMAS[pragmas]


def test_an_unknown_option_is_refused() -> None:
    device: Any = default_device()
    library, error = device.newLibraryWithSource_options_error_("#pragma METAL fp contract(maybe)\n", None, None)
    assert library is None and "unknown floating-point option" in str(error.localizedDescription())


IN_ORDER = {
    "x * 0x1p127f * 2.0f": (2.0**-10, 2.0**118),
    "2.0f * (0x1p127f * x)": (2.0**-10, 2.0**118),
    "x * 0x1p127f * 2.0f * 0x1p-128f": (1.0, np.inf),
    "x * (0x1p127f * 0x1p-127f)": (2.0**120, 2.0**120),
    "x / 0x1p-100f / 0x1p-100f * 0x1p-120f": (1.0, np.inf),
    "x / 0x1p127f / 0x1p20f * 0x1p127f": (2.0**100, 2.0**80),
    "(x + 0x1p30f) - 0x1p30f": (2.0**-10, 0.0),
    "x - x * 1.0f + (x - x)": (np.inf, np.nan),
}


@pytest.mark.parametrize(("engine", "checked"), kit.EVERY)
@pytest.mark.parametrize("safe", [False, True], ids=["fast", "safe"])
def test_operations_are_made_in_the_order_written(engine: str, checked: bool, safe: bool) -> None:
    stores = " ".join(f"{{ float x = in[{n}]; out[{n} * 64 + i] = {text}; }}" for n, text in enumerate(IN_ORDER))
    head = "kernel void k(device const float* in, device float* out, uint i [[thread_position_in_grid]])"
    given, expected = np.array(list(IN_ORDER.values()), np.float32).T
    state = kit.pipeline(f"{head} {{ {stores} }}", kit.device(engine, checked), safe=safe)
    arrays = [given, np.zeros(64 * len(given), np.float32)]
    (_, result), commands = kit.launch(state, arrays, (64, 1, 1), (32, 1, 1))
    assert commands.error() is None, commands.error().localizedDescription()
    np.testing.assert_array_equal(result, np.repeat(expected, 64))


def test_a_method_can_begin_with_a_pragma() -> None:
    source = """struct Scale {
      float factor;
      float operator()(float x) thread {
    #pragma METAL fp contract(off)
        return factor * x + factor;
      }
    };
    kernel void k(device float *x, uint i [[thread_position_in_grid]]) { Scale scale{2}; x[i] = scale(x[i]); }"""
    device: Any = default_device()
    library, error = device.newLibraryWithSource_options_error_(source, None, None)
    assert library is not None, error
