"""Random kernels on the lanes engine and on fibers: the same, bit by bit."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from . import lanes_kit as kit
from .random_kernels import kernel

PROGRAMS = 10  # in one kernel
KERNELS = 10
MANY = 2000
TOGETHER = 10


def _check(seed: int) -> None:
    source, group = kernel(seed, PROGRAMS)
    chance = np.random.default_rng(seed)
    threads = 2 * group
    arrays: list[kit.Array] = [
        np.zeros(threads * PROGRAMS, np.uint32),
        chance.integers(0, 1 << 32, 256, dtype=np.uint32),
        chance.integers(0, 1 << 8, 1024, dtype=np.uint8),
        chance.integers(0, 1 << 16, 512, dtype=np.uint16),
        chance.integers(0, 1 << 32, 256, dtype=np.uint32),
        np.zeros(32, np.uint32),
        np.array([5, 9], np.uint32),
    ]
    kit.compare(source, arrays, (threads, 1, 1), (group, 1, 1))


def _check_all(seeds: range) -> None:
    """Compiling takes the time, and does so on all cores."""
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for _ in workers.map(_check, seeds):
            pass


@pytest.mark.parametrize("first", range(0, KERNELS, TOGETHER))
def test_as_on_fibers(first: int) -> None:
    _check_all(range(first, first + TOGETHER))


@pytest.mark.parametrize("seed", [54, 275])
def test_large_divergent_regions_as_on_fibers(seed: int) -> None:
    _check(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(KERNELS, MANY, TOGETHER))
def test_many_as_on_fibers(first: int) -> None:
    _check_all(range(first, first + TOGETHER))
