"""Objects created by a device, and the device as they know it."""

from __future__ import annotations

from ..execution.device import DeviceState
from .base import NSObject


class DeviceObject(NSObject):
    """A device; MTLDevice adds its selectors."""

    state: DeviceState

    def supportsCounterSampling_(self, point: int) -> bool:
        raise NotImplementedError


class Owned(NSObject):
    """An object created by a device."""

    def __init__(self, device: DeviceObject) -> None:
        self._device = device

    def device(self) -> DeviceObject:
        return self._device
