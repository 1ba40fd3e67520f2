"""Checked mode makes no kernel of the conformance table more than twenty times slower, on the same engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

import mlx_native_py as mn
from mlx_native_py import DType, MlxDevice, settings

from .bench import Bench
from .cases import CASES
from .table import Case

pytestmark = [pytest.mark.soft, pytest.mark.full]
LIMIT = 20
ENOUGH = 250
"""Kernels of the table, specialised ones apart."""
ROUNDS = 60
"""At most; others on the machine make a round slower, so the quickest counts."""
SHORTEST_NS = 20_000
"""What a launch counts for at least: to begin one takes its time too."""


class Unwatched(Bench):
    """Runs a case without looking at its results."""

    def __init__(self, device: MlxDevice, case: Case) -> None:
        super().__init__(device, case.number)
        self.captures = False

    def check_guards(self) -> None:
        pass

    def exact(self, *_: Any, **__: Any) -> None:
        pass

    elementwise = close = quantised = exact


@pytest.fixture(scope="module")
def devices() -> Iterator[tuple[MlxDevice, MlxDevice]]:
    """Without checks and with them, both with one thread on fibers, the engine of checked mode."""
    shared: dict[str, Any] = {"soft_engine": "fibers", "soft_threads": 1, "soft_timeout": 600.0}
    with settings.override(**shared, soft_checked=False), MlxDevice("soft") as plain:
        with settings.override(**shared, soft_checked=True), MlxDevice("soft") as checked:
            yield plain, checked


def measure(device: MlxDevice, case: Case, quickest: dict[str, float]) -> None:
    """Lowers the time of each kernel that the case runs, in nanoseconds for all its dispatches."""
    with mn.profile("dispatch") as profile:
        case.check(Unwatched(device, case), **case.variant)
    taken: defaultdict[str, float] = defaultdict(float)
    for record in profile.records:
        for dispatch in record.dispatches:
            taken[dispatch.kernel] += max(dispatch.gpu_ns, SHORTEST_NS)
    for kernel, ns in taken.items():
        quickest[kernel] = min(ns, quickest.get(kernel, ns))


def one_of_each_type() -> list[Case]:
    """The last case of each check for each type of its numbers, since sizes grow along the table."""
    chosen = {}
    for case in CASES:
        if not case.long:
            types = tuple(str(value) for value in case.variant.values() if isinstance(value, DType))
            chosen[case.op, case.check, types] = case
    return list(chosen.values())


def test_no_kernel_is_more_than_twenty_times_slower(devices: tuple[MlxDevice, MlxDevice]) -> None:
    kernels: set[str] = set()
    slower: dict[str, float] = {}
    for case in one_of_each_type():
        plain: dict[str, float] = {}
        checked: dict[str, float] = {}
        over: dict[str, float] = {}
        for _ in range(ROUNDS):
            for device, quickest in zip(devices, (plain, checked), strict=True):
                measure(device, case, quickest)
            over = {name: checked[name] / ns for name, ns in plain.items() if checked[name] > LIMIT * ns}
            if not over:
                break
        kernels |= plain.keys()
        slower |= over
    assert not slower, f"more than {LIMIT} x slower: {slower}"
    assert len(kernels) >= ENOUGH
