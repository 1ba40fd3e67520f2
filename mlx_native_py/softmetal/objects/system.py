"""The default device of the process and its configuration."""

from __future__ import annotations

import threading
from weakref import ref

from ..options import DeviceProfile, SoftOptions
from .base import without
from .device import MTLDevice
from .foundation import NSArray

_lock = threading.RLock()  # a signal handler may ask for a device
_configuration: tuple[SoftOptions, DeviceProfile | None] = (SoftOptions(), None)
_default: MTLDevice | None = None
_devices: set[ref[MTLDevice]] = set()


def open_device(options: SoftOptions | None = None, profile: DeviceProfile | None = None) -> MTLDevice:
    """A device of its own, beside the default one."""
    chosen = profile or DeviceProfile()
    device = without(MTLDevice, chosen.absent)(options or SoftOptions(), chosen)
    _devices.add(ref(device, _devices.discard))
    return device


def configure(options: SoftOptions | None = None, profile: DeviceProfile | None = None) -> None:
    """Says what the default device is like; the one there is stays, unless this changes something."""
    global _configuration, _default
    wanted = options or SoftOptions(), profile
    with _lock:
        if wanted != _configuration:
            _configuration, _default = wanted, None


def may_capture() -> bool:
    """Whether any device of the process can be captured."""
    devices = (MTLCreateSystemDefaultDevice(), *[each() for each in list(_devices)])
    return any(device.state.options.capture_enabled for device in devices if device is not None)


def MTLCreateSystemDefaultDevice() -> MTLDevice:
    """The one default device; the same until it is configured anew."""
    global _default
    with _lock:
        if _default is None:
            made = open_device(*_configuration)
            _default = made if _default is None else _default
        return _default


def MTLCopyAllDevices() -> NSArray[MTLDevice]:
    return NSArray((MTLCreateSystemDefaultDevice(),))
