"""Apple's Metal through PyObjC; the only module that imports `Metal` and `objc`."""

from __future__ import annotations

import platform
import sys
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import Metal
import objc
from Foundation import NSURL

from ..errors import BackendError, DeviceNotFound
from ..forks import Lock
from .capabilities import probe, unsupported
from .contract import corrections

__all__ = ["Metal", "autorelease_pool", "default_device", "prepare", "url"]

_MEBIBYTE = 1 << 20
_lock = Lock()
_checked = False


def _register() -> None:
    # At import, so that it comes before the first use of any of these selectors: PyObjC keeps how it
    # called a selector the first time.
    for owner, selector, metadata in corrections():
        objc.registerMetaDataForSelector(owner, selector, metadata)


_register()


def prepare() -> None:
    """Checks once that there is a supported device and that PyObjC releases its objects."""
    global _checked
    with _lock:
        if not _checked:
            with autorelease_pool():
                device = default_device()
                _check_retains(device)
                if reason := _translated() or unsupported(probe(Metal, device)):
                    raise DeviceNotFound(reason)
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


def _translated() -> str:
    """Under Rosetta pages have another size than the GPU's, and nobody has tried this package there."""
    if sys.platform != "darwin" or platform.machine() == "arm64":
        return ""
    return "this Python is one for Intel processors; on Apple silicon take one for arm64"


def autorelease_pool() -> AbstractContextManager[None]:
    """A new pool for one submission; never held across a yield or an await."""
    pool: AbstractContextManager[None] = objc.autorelease_pool()
    return pool


def url(path: str | Path) -> Any:
    """A file URL for selectors that take an NSURL."""
    return NSURL.fileURLWithPath_(str(path))


def _check_retains(device: Any) -> None:
    """Checks the retain count of a new object; if it is not 1, checks that memory is freed, since debug layers wrap
    objects."""
    with autorelease_pool():
        count = _new_buffer(device).retainCount()
    if count == 1:
        return
    problem = f"a new MTLBuffer has retain count {count} instead of 1"
    before = device.currentAllocatedSize()
    with autorelease_pool():
        buffer = _new_buffer(device)
        held = device.currentAllocatedSize()
        del buffer
    if held > before and device.currentAllocatedSize() >= held:
        raise BackendError(
            f"{problem} and its memory stays when it is dropped, so every buffer would leak: "
            "some code used Metal through PyObjC before this package could register its metadata. "
            "Import mlx_native_py and open the device first, or upgrade pyobjc-core and pyobjc-framework-Metal"
        )
    told = "but its memory comes back" if held > before else "and the device does not count its memory"
    warnings.warn(f"{problem}, {told}: a debug layer or a capture, perhaps", stacklevel=2)


def _new_buffer(device: Any) -> Any:
    return device.newBufferWithLength_options_(_MEBIBYTE, Metal.MTLResourceStorageModeShared)
