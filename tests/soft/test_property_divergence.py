"""Random control flow: simdgroup functions see the lanes that are there, and no others."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from .conformance.control_flow import THREADS, Statement, blocks, expected, source
from .harness import run

EXAMPLES = max(1, settings.default.max_examples * 3 // 5) if settings.default else 30


def _kernel(block: tuple[Statement, ...]) -> str:
    return f"""#include <metal_stdlib>
using namespace metal;
kernel void k(device uint* out, uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {{
uint v = i;
{source(block)}
out[i] = v;
}}
"""


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(blocks())
def test_lockstep(block: tuple[Statement, ...]) -> None:
    got = run(_kernel(block), "k", np.zeros(THREADS, np.uint32), threads=THREADS, group=THREADS)[0]
    np.testing.assert_array_equal(got, expected(block), err_msg=source(block))
