"""Random kernels on every engine: the same, bit by bit."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from . import lanes_kit as kit
from .random_kernels import pack, pack_apart

PACK = 10  # programs in one kernel
PACKS = 3  # kernels that wait, and as many that do not
MANY_PACKS = 1000


def _arrays(seed: int, threads: int) -> list[kit.Array]:
    chance = np.random.default_rng(seed)
    return [
        np.zeros(threads * PACK, np.uint32),
        chance.integers(0, 1 << 32, 256, dtype=np.uint32),
        chance.integers(0, 1 << 8, 1024, dtype=np.uint8),
        chance.integers(0, 1 << 16, 512, dtype=np.uint16),
        chance.integers(0, 1 << 32, 256, dtype=np.uint32),
        np.zeros(32, np.uint32),
        np.array([5, 9], np.uint32),
    ]


def _check(seed: int) -> None:
    source, group = pack(seed, PACK)
    # Asked for flat, what waits runs on fibers, with the code that lanes keep for the edges of a grid.
    kit.compare(source, _arrays(seed, 2 * group), (2 * group, 1, 1), (group, 1, 1), ("lanes", "flat"))


def _check_apart(seed: int) -> None:
    source, group = pack_apart(seed, PACK)
    kit.compare(source, _arrays(seed, 2 * group), (2 * group, 1, 1), (group, 1, 1), ("lanes", "flat", "fibers"))


def _check_all(check: Callable[[int], None], seeds: range) -> None:
    """Compiling takes the time, and does so on all cores."""
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for _ in workers.map(check, seeds):
            pass


@pytest.mark.parametrize("check", [_check, _check_apart])
def test_engines_agree(check: Callable[[int], None]) -> None:
    _check_all(check, range(PACKS))


@pytest.mark.parametrize("seed", [54, 275])
def test_engines_agree_on_large_divergent_regions(seed: int) -> None:
    _check(seed)


def test_lanes_take_what_the_compiler_cannot_select_instructions_for() -> None:
    _check(563)


@pytest.mark.full
@pytest.mark.parametrize("first", range(PACKS, MANY_PACKS, PACKS))
@pytest.mark.parametrize("check", [_check, _check_apart])
def test_engines_agree_on_many(check: Callable[[int], None], first: int) -> None:
    _check_all(check, range(first, min(first + PACKS, MANY_PACKS)))
