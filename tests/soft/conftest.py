"""What several tests of software Metal look at."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mlx_native_py.softmetal.execution import queue as execution
from mlx_native_py.softmetal.execution.execute import execute

from .objects_kit import default_device


@pytest.fixture
def device() -> Any:
    return default_device()


@pytest.fixture
def queue(device: Any) -> Any:
    return device.newCommandQueue()


@pytest.fixture
def performed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that ran command buffers the long way."""
    found: list[int] = []

    def noting(*arguments: Any) -> Any:
        found.append(threading.get_ident())
        return execute(*arguments)

    monkeypatch.setattr(execution, "execute", noting)
    return found
