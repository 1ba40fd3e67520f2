"""Garbage collection as the other tests want it: a bench ends with everything thawed."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def frozen_again() -> Iterator[None]:
    yield
    gc.collect()
    gc.freeze()
