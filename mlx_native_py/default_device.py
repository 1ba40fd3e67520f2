"""The device that is used where none is given: one for each process and each way to open it."""

from __future__ import annotations

import os
import threading
from typing import Any

from . import settings
from .device import MlxDevice
from .errors import EncoderStateError

__all__ = ["default_device"]

_lock = threading.Lock()
_opened: dict[tuple[Any, ...], MlxDevice] = {}


def default_device() -> MlxDevice:
    """The device of `kernel(source)` and `fast.metal_kernel(...)`; the same one each time, opened at first use.

    Other settings of the device (`MLX_NATIVE_DEVICE`, `MLX_SOFT_CHECKED`, ...) make it another one, and so does a fork.

    >>> default_device() is default_device()
    True
    """
    now = settings.current()
    soft = (now.soft_schedule, now.soft_checked, now.soft_engine, now.soft_threads, now.soft_timeout)
    key = (os.getpid(), now.device, now.no_residency, *soft, now.kernel_cache, now.soft_clang)
    with _lock:
        found = _opened.get(key)
        if found is not None:
            try:
                found.require_open()
            except EncoderStateError:  # somebody closed it
                found = None
        if found is None:
            found = _opened[key] = MlxDevice()
        return found
