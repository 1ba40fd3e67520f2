"""Metal compute from Python: Apple's Metal through PyObjC, or a software Metal that runs the same kernels."""

from . import settings
from .errors import BackendError, DeviceNotFound, MlxError, SettingsError
from .metal import Capabilities, Door, open_metal

__all__ = [
    "BackendError",
    "Capabilities",
    "DeviceNotFound",
    "Door",
    "MlxError",
    "SettingsError",
    "open_metal",
    "settings",
]
