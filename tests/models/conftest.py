"""The devices that models run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlx_native_py import MlxDevice, settings


@pytest.fixture(scope="package", params=["soft", pytest.param("metal", marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    # What a model computes is no matter of engines, and lanes take long to compile: they join in the long run.
    engine = settings.current().soft_engine
    quick = engine == "auto" and not request.config.getoption("--full")
    with settings.override(soft_engine="flat" if quick else engine), MlxDevice(request.param) as opened:
        yield opened
