"""Apple's Metal through PyObjC: the only place that imports `Metal` and `objc`."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import Metal
import objc

from ..errors import BackendError, DeviceNotFound
from .contract import corrections

__all__ = ["Metal", "autorelease_pool", "default_device", "prepare", "url"]

_lock = threading.Lock()
_checked = False


def _register() -> None:
    # At import, so that it comes before the first use of any of these selectors: PyObjC keeps how it
    # called a selector the first time.
    for owner, selector, metadata in corrections():
        objc.registerMetaDataForSelector(owner, selector, metadata)


_register()


def prepare() -> None:
    """Checks once that there is a device and that PyObjC gives back what it hands out."""
    global _checked
    with _lock:
        if not _checked:
            with autorelease_pool():
                _check_retains(default_device())
            _checked = True


def default_device() -> Any:
    """The system's default MTLDevice."""
    device = Metal.MTLCreateSystemDefaultDevice()
    if device is None:
        raise DeviceNotFound(
            "PyObjC's Metal is installed, but the system offers no Metal device "
            "(a virtual machine without a GPU, or a session without access to it)"
        )
    return device


def autorelease_pool() -> AbstractContextManager[None]:
    """A fresh pool for one submission; never held across a yield or an await."""
    pool: AbstractContextManager[None] = objc.autorelease_pool()
    return pool


def url(path: str | Path) -> Any:
    """A file URL for selectors that take an NSURL."""
    import Foundation  # comes with Metal

    return Foundation.NSURL.fileURLWithPath_(str(path))


def _check_retains(device: Any) -> None:
    count = device.newBufferWithLength_options_(1 << 14, Metal.MTLResourceStorageModeShared).retainCount()
    if count != 1:
        raise BackendError(
            f"a new MTLBuffer has retain count {count} instead of 1, so every buffer would leak: "
            "some code used Metal through PyObjC before this package could register its metadata. "
            "Import mlx_native_py and open the device first, or upgrade pyobjc-core and pyobjc-framework-Metal"
        )
