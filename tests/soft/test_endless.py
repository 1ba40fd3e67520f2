"""Endless loops, with effects or without, run until the watchdog stops them, on every engine, and no longer."""

from __future__ import annotations

import time

import numpy as np
import pytest

from . import lanes_kit as kit

BODIES = {
    "nothing": "while (true) {}",
    "nothing-then-a-store": "for (;;) {} out[i] = 1;",
    "a-counter": "uint n = i; while (true) { n = n * 5 + 1; } out[i] = n;",
    "a-condition": "uint n = uint(out[i]) + 2; while (n != 1) { n = n * 4; } out[i] = 1;",
    "an-unused-result": "uint n = uint(out[i]) + 2; while (n != 1) { n = n * 4; }",
    "some-threads": "if (i % 2) while (true) {} out[i] = simd_sum(1.0f);",
}


RIGHT = "kernel void k(device float* out, uint i [[thread_position_in_grid]]) { out[i] = i; }"
BUDGET = 0.3


@pytest.mark.parametrize(("engine", "checked"), kit.EVERY)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_it_times_out(engine: str, checked: bool, body: str) -> None:
    source = f"kernel void k(device float* out, uint i [[thread_position_in_grid]]) {{ {body} }}"
    on = kit.device(engine, checked, watchdog_seconds=BUDGET)
    endless, right = kit.pipeline(source, on), kit.pipeline(RIGHT, on)

    def seconds() -> float:
        start = time.monotonic()
        _, commands = kit.launch(endless, [np.zeros(1024, np.float32)], (64, 1, 1), (64, 1, 1))
        assert "timeout" in commands.error().localizedDescription()
        return time.monotonic() - start

    seconds()  # compiles for the shape
    # A machine that is busy with other things may need a second look.
    assert any(seconds() <= 2 * BUDGET for _ in range(5))
    (left,), commands = kit.launch(right, [np.zeros(64, np.float32)], (64, 1, 1), (64, 1, 1))
    assert commands.error() is None and (left == np.arange(64)).all()
