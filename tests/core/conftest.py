"""The device that the core's tests run on: each kind of Metal in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlx_native_py import MlxDevice
from mlx_native_py.metal import Door


@pytest.fixture
def device(door: Door) -> Iterator[MlxDevice]:
    with MlxDevice(door=door) as opened:
        yield opened
