"""Random kernels on the lanes engine and on fibers: the same, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from . import lanes_kit as kit
from .random_kernels import kernel

PROGRAMS = 10  # in one kernel
KERNELS = 50
MANY = 2000


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


@pytest.mark.parametrize("seed", range(KERNELS))
def test_as_on_fibers(seed: int) -> None:
    _check(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(KERNELS, MANY))
def test_many_as_on_fibers(seed: int) -> None:
    _check(seed)
