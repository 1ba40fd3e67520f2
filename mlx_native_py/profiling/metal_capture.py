"""GPU traces for Xcode (`.gputrace`)."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from .. import settings
from ..encoder import DeviceContext
from ..errors import CaptureError
from ..forks import Lock
from ..metal import ns_error

__all__ = ["MetalCapture", "reset_capture_consumed"]

_lock = Lock()
_consumed = False


class MetalCapture:
    """Writes a GPU trace of a device's queue to `path`, between `begin()` and `end()` or in a `with` block.

    On a Mac, start the process with `MTL_CAPTURE_ENABLED=1`.

    >>> from mlx_native_py import MlxDevice
    >>> with settings.override(metal_capture=folder / "step.gputrace"):
    ...     device = MlxDevice("soft")  # which captures if the flag was set when it was opened
    >>> with MetalCapture(device, folder / "step.gputrace") as capture:
    ...     device.command_encoder().commit_and_wait()
    >>> capture.path.is_dir()
    True
    """

    def __init__(self, device: DeviceContext, path: Path | str) -> None:
        self.path = Path(path)
        self._device = device
        self._manager = device.backend.Metal.MTLCaptureManager.sharedCaptureManager()
        self.is_capturing = False

    @classmethod
    def from_env(cls, device: DeviceContext) -> MetalCapture | None:
        """A running capture to the path in `MLX_METAL_CAPTURE`, once per process; None without the setting.

        Raises `CaptureError` if the device cannot capture.
        """
        global _consumed
        path = settings.current().metal_capture
        with _lock:
            if path is None or _consumed:
                return None
            capture = cls(device, path)
            capture.begin()
            _consumed = True
            return capture

    def begin(self) -> None:
        """Starts the trace; does nothing if it is running."""
        if self.is_capturing:
            return
        self._device.require_open()
        if self.path.exists():
            raise CaptureError(f"{self.path} already exists, and Metal does not overwrite traces")
        backend = self._device.backend
        metal = backend.Metal
        with backend.autorelease_pool():
            descriptor = metal.MTLCaptureDescriptor.alloc().init()
            descriptor.setCaptureObject_(self._device.queue)
            descriptor.setDestination_(metal.MTLCaptureDestinationGPUTraceDocument)
            descriptor.setOutputURL_(backend.url(self.path))
            started, error = self._manager.startCaptureWithDescriptor_error_(descriptor, None)
        if not started:
            reason = ns_error.reason(error)
            raise CaptureError(
                f"{self._device.name} cannot write a GPU trace to {self.path}: {reason} "
                "Start the process with MTL_CAPTURE_ENABLED=1 on a Mac; the software device captures "
                "if MLX_METAL_CAPTURE was set when it was opened"
            )
        self.is_capturing = True

    def end(self) -> None:
        """Waits for submitted work and closes the trace; does nothing if none is running."""
        if not self.is_capturing:
            return
        self.is_capturing = False
        try:
            self._device.submissions.wait_all()
        finally:
            self._manager.stopCapture()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.end()

    def __del__(self) -> None:
        if self.__dict__.get("is_capturing"):
            self.is_capturing = False
            self._manager.stopCapture()


def reset_capture_consumed() -> None:
    """Allows `from_env` to capture once more."""
    global _consumed
    with _lock:
        _consumed = False
