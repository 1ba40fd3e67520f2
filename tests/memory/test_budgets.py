"""Devices with little memory: what does not fit is refused with the numbers, and the limit is never passed."""

from __future__ import annotations

import random

import pytest
from kit.encoding import soft_device

from mlx_native_py import MlxBuffer, fn
from mlx_native_py.errors import BufferAllocationError
from mlx_native_py.softmetal import DeviceProfile

pytestmark = pytest.mark.soft
MIB = 1 << 20


def _filled(seed: int) -> None:
    """Buffers come and go at random on a device of 64 MiB to 1 GiB, of which no page is touched."""
    chosen = random.Random(seed)
    limit = chosen.randint(64, 1024) * MIB
    held: list[MlxBuffer] = []
    refusals = 0
    with soft_device(DeviceProfile(memory=limit, working_set=limit)) as device:
        while refusals < 5:
            if held and chosen.random() < 0.3:
                held.pop(chosen.randrange(len(held)))
            wanted = chosen.randint(1, limit // 4)
            used = device.info()["currently_allocated"]
            try:
                held.append(device.empty(wanted, "u8"))
            except BufferAllocationError as refused:
                refusals += 1
                now = device.info()["currently_allocated"]  # less where something was kept for later
                assert all(str(number) in str(refused) for number in (wanted, limit, now))
                assert now <= used
            assert device.info()["currently_allocated"] <= limit
        held.clear()
        assert device.empty(limit, "u8").nbytes == limit, "what was dropped comes back when it is needed"


def test_the_limit_is_never_passed(request: pytest.FixtureRequest) -> None:
    for seed in range(500 if request.config.getoption("--full") else 50):
        _filled(seed)


def test_results_that_were_dropped_make_room() -> None:
    with soft_device(DeviceProfile(memory=8 * MIB, working_set=8 * MIB)) as device:
        x = device.ones(MIB // 4, "f32")
        results = [fn.add(x, x, stream=device) for _ in range(6)]
        results.clear()
        assert device.empty(6 * MIB, "u8").nbytes == 6 * MIB
