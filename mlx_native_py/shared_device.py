"""The default device, shared by calls that do not name one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import settings
from .device import MlxDevice
from .errors import EncoderStateError
from .forks import Lock

__all__ = ["default_device"]

_lock = Lock()
_opened: dict[settings.Settings, MlxDevice] = {}

# Settings that each encoder reads by itself do not need another device.
_PER_ENCODER: dict[str, Any] = {
    "profile_cb": False,
    "profile_dispatch": False,
    "profile_barriers": False,
    "unretained_refs": False,
    "auto_barrier": True,
    "force_serial_dispatch": False,
    "encoder_session": False,
}


def default_device() -> MlxDevice:
    """The device of `kernel(source)`, `fn` and `fast.metal_kernel`; opened at first use and then reused.

    There is one per device setting (`MLX_NATIVE_DEVICE`, `MLX_SOFT_CHECKED`, ...).
    """
    key = replace(settings.current(), **_PER_ENCODER)
    with _lock:
        device = _opened.get(key)
        if device is not None:
            try:
                device.require_open()
            except EncoderStateError:  # somebody closed it
                device = None
        if device is None:
            device = _opened[key] = MlxDevice()
        return device
