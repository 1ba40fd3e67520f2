"""Devices that run what no barrier orders in any order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlx_native_py import MlxDevice, settings


@pytest.fixture(scope="module", params=["soft", pytest.param("metal", marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with settings.override(soft_schedule="shuffled:7"), MlxDevice(request.param) as opened:
        yield opened
