"""A plan can be replayed for as long as one likes: memory stays flat."""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mlx_native_py import ComputeGraph, MlxDevice, Out

from .random_graphs import SOURCE

pytestmark = pytest.mark.soft
DISPATCHES = 1000


def chain(device: MlxDevice) -> ComputeGraph:
    mix = device.kernels.get_pipeline("mix", library=device.kernels.library(SOURCE))
    buffers = [device.buffer(np.zeros(64, np.uint32)) for _ in range(4)]
    with device.capture() as graph:
        for index in range(DISPATCHES):
            a, b, out = (buffers[(index + step) % 4] for step in range(3))
            graph.encoder.dispatch(mix, a, b, Out(out), index, threads=64)
    return graph


def resident_bytes() -> int:
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def replay(device: MlxDevice, dispatches: int, **options: bool) -> int:
    """How much the process has grown after so many replayed dispatches."""
    plan = chain(device).plan(scalars=["k"], **options)
    numbers = plan.scalars("k")
    # By then every kernel runs on the engine that it will stay on.
    for _ in range(200):
        plan.run()
    gc.collect()
    before = resident_bytes()
    for index in range(dispatches // DISPATCHES):
        numbers.set(index)
        plan.run()
    gc.collect()
    return resident_bytes() - before


@pytest.fixture
def plain() -> Iterator[MlxDevice]:
    """The software device: a played Mac writes down every message."""
    with MlxDevice("soft") as opened:
        yield opened


@pytest.mark.full
@pytest.mark.parametrize("indirect", [True, False])
def test_a_million_dispatches(plain: MlxDevice, indirect: bool) -> None:
    assert replay(plain, 1_000_000, indirect=indirect) <= 1_000_000


def test_a_hundred_thousand(plain: MlxDevice) -> None:
    assert replay(plain, 100_000) <= 1 << 20
