"""The device that the core's tests run on: each kind of Metal in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlx_native_py import MlxDevice
from mlx_native_py.metal import Backend


@pytest.fixture
def device(backend: Backend) -> Iterator[MlxDevice]:
    with MlxDevice(backend) as opened:
        yield opened
