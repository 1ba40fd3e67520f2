"""The exceptions of this package.

MlxError
├── SettingsError      also ValueError    a flag or setting has a value that it cannot have
├── DeviceNotFound     also RuntimeError  the device asked for is not on this machine
└── BackendError       also RuntimeError  the device is there, but its bridge cannot be trusted
"""

from __future__ import annotations

__all__ = ["BackendError", "DeviceNotFound", "MlxError", "SettingsError"]


class MlxError(Exception):
    """Base of everything that this package raises on purpose."""


class SettingsError(MlxError, ValueError):
    """A flag or setting has a value that it cannot have."""


class DeviceNotFound(MlxError, RuntimeError):
    """The device asked for is not on this machine."""


class BackendError(MlxError, RuntimeError):
    """The device is there, but the bridge to it cannot be trusted."""
