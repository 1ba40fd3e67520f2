"""The same inputs give the same bits on every engine, in every math mode."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from . import lanes_kit as kit
from .conformance import padding_table

# Everything for which an optimiser, a mathematics library or the number of lanes might choose another rounding.
EXPRESSIONS = {
    "exponentials": "exp(x) + exp2(y) + exp10(x * 0.1f)",
    "logarithms": "log(fabs(x)) + log2(fabs(y)) + log10(fabs(x) + 1.0f)",
    "powers": "pow(fabs(x), y) + powr(fabs(y), 0.3f)",
    "hyperbolic": "tanh(x) + tanh(y * 0.1f) + sinh(y) + cosh(x)",
    "angles": "sin(x) + cos(y) + tan(x) + sin(x * 1e7f) + sinpi(y)",
    "inverse": "atan(x) + atan2(x, y) + asin(x * 0.01f) + asinh(y)",
    "products in sums": "x * y + x * x - y * 3.0f",
    "products kept": "p - y * 3.0f + p * p",
    "quotients": "x / y + rsqrt(fabs(x)) + fmod(x, y)",
    "sum of a row": "row",
    "dot": "dot(float4(x, y, x, y), float4(y, x, 1.0f, x)) + length(float3(x, y, x))",
    "half": "float(half(x) * half(y) + half(0.1f)) + float(exp(half(y * 0.1f)))",
    "vectors": "(float4(x) * float4(y) + float4(1.0f, x, y, 2.0f)).w",
    "simdgroup": "simd_sum(x) + simd_product(y * 0.01f) + simd_prefix_inclusive_sum(x) + quad_sum(y)",
}
SOURCE = """
kernel void k(device const float *a, device const float *b, device float *out, uint i [[thread_position_in_grid]]) {{
  const float x = a[i], y = b[i], p = x * y;
  float row = 0;
  for (uint j = 0; j < 32; ++j) row += a[i / 32 * 32 + j] * b[j];
  out[i] = {expression};
}}
"""


@pytest.mark.parametrize("safe", [False, True], ids=["fast", "safe"])
@pytest.mark.parametrize("what", EXPRESSIONS)
def test_engines_agree(what: str, safe: bool) -> None:
    chance = np.random.default_rng(7)
    a, b = (chance.normal(scale=scale, size=512).astype(np.float32) for scale in (10, 3))
    source = SOURCE.format(expression=EXPRESSIONS[what])
    results = {
        engine: kit.run(source, [a, b, np.zeros_like(a)], (512, 1, 1), (64, 1, 1), engine, safe=safe)[2]
        for engine in ("lanes", "fibers", "flat")
    }
    for engine in ("fibers", "flat"):
        np.testing.assert_array_equal(results["lanes"].view(np.uint32), results[engine].view(np.uint32), engine)


PROCESSORS = ["native", "x86-64-v3"] if platform.machine() == "x86_64" else ["native"]
# Each reads from lanes that a small or divided simdgroup has not.
SHUFFLES = (
    "simd_shuffle(x, ushort(x & 31u))",
    "simd_shuffle(n, ushort(x & 31u))",
    "simd_shuffle(x, ushort(n & 31u))",
    "simd_broadcast(x, 30)",
    "simd_shuffle_down(x, 3)",
    "simd_shuffle_xor(x, 9)",
    "uint(simd_shuffle_up(half(lane), 5))",
    "simd_shuffle_rotate_down(uint3(x, lane, n), 2).y",
    "simd_shuffle_and_fill_down(x, 5u, 2)",
    "quad_shuffle_xor(x, 3)",
    "quad_broadcast(x, 2)",
)


@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.parametrize("threads", [7, 40, 64])
@pytest.mark.parametrize("when", ["true", "lane % 3 != 0", "lane > 4", "x & 1"])
def test_lanes_that_are_not_there_have_the_value_of_the_first_that_is(cpu: str, threads: int, when: str) -> None:
    stores = " ".join(f"if ({when}) out[{n * 64} + i] = {text};" for n, text in enumerate(SHUFFLES))
    source = f"""kernel void k(device uint *out, device const uint *in, uint i [[thread_position_in_grid]],
      uint lane [[thread_index_in_simdgroup]]) {{ uint x = in[i], n = in[0]; {stores} }}"""
    values = np.random.default_rng(1).integers(0, 1 << 20, 64, np.uint32)
    arrays = [np.zeros(64 * len(SHUFFLES), np.uint32), values]
    results = []
    for engine in ("lanes", "fibers"):
        (result, _), commands = kit.launch(
            kit.pipeline(source, kit.device(engine, cpu=cpu)), arrays, (threads, 1, 1), (threads, 1, 1)
        )
        assert commands.error() is None, commands.error().localizedDescription()
        results.append(result)
    np.testing.assert_array_equal(results[0], results[1])
    if when == "true":
        lanes = np.arange(threads)
        there = np.minimum(threads - lanes // 32 * 32, 32)
        source_lane = np.where(values[:threads] % 32 < there, values[:threads] % 32, 0)
        np.testing.assert_array_equal(results[0][:threads], values[lanes // 32 * 32 + source_lane])


@pytest.mark.parametrize(("engine", "checked"), kit.EVERY)
def test_padding_is_zero(engine: str, checked: bool) -> None:
    for program in padding_table.all_programs():
        state = kit.pipeline(program.body, kit.device(engine, checked))
        left, commands = kit.launch(state, program.args, (padding_table.COUNT, 1, 1), (32, 1, 1))
        assert commands.error() is None, commands.error().localizedDescription()
        for name, (slot, expected, *at) in program.results.items():
            first = at[0] if at else 0
            np.testing.assert_array_equal(left[slot][first : first + expected.size], expected, name)
