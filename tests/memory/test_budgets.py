"""Devices with little memory: what does not fit is refused with the numbers, and the limit is never passed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from kit.encoding import Namespace, soft_device
from kit.spy import Recorder, watched

from mlx_native_py import MlxBuffer, MlxDevice, fn
from mlx_native_py.errors import BufferAllocationError
from mlx_native_py.metal import open_metal
from mlx_native_py.softmetal import DeviceProfile, SoftOptions

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


def test_a_buffer_beyond_the_limit_of_one_is_refused_before_metal_is_asked() -> None:
    profile, seen = DeviceProfile(memory=1024 * MIB, working_set=1024 * MIB, max_buffer_length=64 * MIB), Recorder()
    backend = replace(open_metal("soft"), Metal=Namespace(profile, SoftOptions()))
    with MlxDevice(watched(backend, seen)) as device:
        seen.log.clear()
        for make in (device.empty, device.zeros):
            with pytest.raises(BufferAllocationError, match=f"{64 * MIB} bytes per buffer"):
                make(64 * MIB + 1, "u8")
        assert not [each.name for each in seen.log if each.name.startswith("newBuffer")]


def test_what_was_resident_makes_room() -> None:
    """It is freed when the set lets go of it, for which no command buffer has to come first."""
    with soft_device(DeviceProfile(memory=8 * MIB, working_set=8 * MIB)) as device:
        held = device.empty(6 * MIB, "u8")
        device.command_encoder().commit_and_wait()
        assert device.residency.count and not device.residency.is_staged
        del held
        assert device.empty(6 * MIB, "u8").nbytes == 6 * MIB
