"""Signal handlers that submit in the middle of a submission, and encoders that are dropped in the middle."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path
from typing import Any

import pytest
from interrupts import work_at_every_bytecode

import mlx_native_py
from mlx_native_py import MlxDevice

INSIDE = (Path(mlx_native_py.__file__).parent, Path(contextlib.__file__))
pytestmark = pytest.mark.soft
SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void late(device uint *x, uint i [[thread_position_in_grid]]) {
  uint noise = i;
  for (uint k = 0; k < 300000; ++k) noise = noise * 1664525u + 1013904223u;
  x[i] += noise == i ? 2 : 1;
}
"""


@pytest.fixture(scope="module")
def device() -> Any:
    with MlxDevice("soft") as device:
        yield device


def test_what_a_signal_handler_submits_inside_a_submission_is_waited_for_by_a_read(
    device: MlxDevice, request: pytest.FixtureRequest
) -> None:
    """Whichever of the two was committed first."""
    late = device.compile(SOURCE).late.pipeline
    x = device.zeros(64, "u32")
    written: list[int] = []

    def encoded() -> Any:
        enc = device.command_encoder()
        enc.dispatch(late, x, threads=64)
        return enc

    def setup() -> Any:
        x.fill(0)
        written[:] = [1]
        return encoded()

    def work() -> None:
        written.append(1)
        encoded().commit()

    def check(_: Any) -> None:
        assert set(x.numpy().tolist()) == {len(written)}

    step = 1 if request.config.getoption("--full") else 3
    assert work_at_every_bytecode(setup, lambda enc: enc.commit(), work, check, inside=INSIDE, step=step) > 10


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_encoder_that_is_dropped_keeps_no_memory(device: MlxDevice) -> None:
    late, before = device.compile(SOURCE).late.pipeline, device.mtl.currentAllocatedSize()
    x, enc = device.zeros(64, "u32"), device.command_encoder()
    enc.dispatch(late, x, threads=64)
    enc.dispatch(late, device.zeros(64, "u32"), threads=64)
    del x, enc
    gc.collect()
    device.residency.flush()
    assert device.mtl.currentAllocatedSize() <= before
