"""The devices that models run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlx_native_py import MlxDevice


@pytest.fixture(scope="package", params=["soft", pytest.param("metal", marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with MlxDevice(request.param) as opened:
        yield opened
