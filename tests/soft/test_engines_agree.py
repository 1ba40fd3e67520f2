"""The same inputs give the same bits on every engine, in every math mode."""

from __future__ import annotations

import numpy as np
import pytest

from . import lanes_kit as kit

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
