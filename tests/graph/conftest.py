"""Devices that run what no barrier orders in any order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selection import kinds, opened

from mlx_native_py import MlxDevice, settings


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", kinds(metafunc), indirect=True, scope="module")


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with settings.override(soft_schedule="shuffled:7"), MlxDevice(opened(request.param)) as opened_device:
        yield opened_device


@pytest.fixture(autouse=True)
def able(request: pytest.FixtureRequest) -> None:
    """Leaves out what the device cannot do: plans that insist on commands."""
    params = dict(getattr(getattr(request.node, "callspec", None), "params", {}))
    if not isinstance(params.pop("device", None), str):
        return
    able = request.getfixturevalue("device").capabilities
    for need in (name for mark in request.node.iter_markers("needs") for name in mark.args):
        if not getattr(able, need):
            pytest.skip(f"{able.name} has no {need}")
    wanted = {name for name, value in params.items() if value is True}
    wanted |= {word for value in params.values() if isinstance(value, str) for word in value.split()}
    if "indirect" in wanted and not able.indirect_command_buffers:
        pytest.skip(f"{able.name} has no indirect command buffers")
