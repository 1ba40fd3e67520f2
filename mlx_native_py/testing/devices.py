"""The devices that tests run on, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import settings
from ..device import MlxDevice
from ..errors import MlxError
from ..metal import open_metal

__all__ = ["DEVICES", "absent", "opened"]

DEVICES: dict[str, dict[str, Any]] = {
    "soft": {"device": "soft", "soft_checked": False, "soft_schedule": "ordered"},
    "soft-checked": {"device": "soft", "soft_checked": True, "soft_isolated": False, "soft_schedule": "ordered"},
    "soft-shuffled": {"device": "soft", "soft_checked": False, "soft_schedule": "shuffled:1"},
    "metal": {"device": "metal"},
}
"""The settings that make each of them."""


def absent(name: str) -> str:
    """Why a device is not available; empty if it is."""
    try:
        open_metal("metal" if name == "metal" else "soft")
    except MlxError as reason:
        return str(reason)
    return ""


@contextmanager
def opened(name: str) -> Iterator[MlxDevice]:
    """The device, open during the block; `kernel(source)` uses the same settings meanwhile."""
    with settings.override(**DEVICES[name]), MlxDevice() as device:
        yield device
