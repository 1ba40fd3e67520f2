"""The capture manager, and capture scopes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import constants as c
from ..execution.capture import Capture, active
from ..execution.queue import QueueState
from ..misuse import MetalMisuse
from ..values import answer, instance, maybe, unwanted, whole
from .base import Descriptor, Labelled, NSObject, attribute
from .device import MTLDevice
from .foundation import NSURL, NSError
from .owned import DeviceObject, Owned
from .queue import MTLCommandQueue
from .system import may_capture


def _any(value: Any, what: str) -> Any:
    return value


class MTLCaptureDescriptor(Descriptor):
    """What to capture, and where to."""

    captureObject, setCaptureObject_ = attribute("captureObject", _any, None)
    destination, setDestination_ = attribute("destination", whole, c.MTLCaptureDestinationDeveloperTools)
    outputURL, setOutputURL_ = attribute("outputURL", maybe(NSURL), None)


class MTLCaptureScope(Owned, Labelled):
    """A period of time that a capture is limited to."""

    def __init__(self, device: DeviceObject, queue: MTLCommandQueue | None = None) -> None:
        super().__init__(device)
        self._queue = queue
        self._inside = False

    def covers(self, queue: QueueState) -> bool:
        """Whether what this queue does now belongs to the scope."""
        if self._queue is not None and self._queue.state is not queue:
            return False
        return self._inside and self._device.state is queue.device

    def commandQueue(self) -> MTLCommandQueue | None:
        return self._queue

    def beginScope(self) -> None:
        if self._inside:
            raise MetalMisuse(f"beginScope on {self!r}, which has begun already")
        self._inside = True

    def endScope(self) -> None:
        if not self._inside:
            raise MetalMisuse(f"endScope on {self!r}, which has not begun")
        self._inside = False


class MTLCaptureManager(NSObject):
    """Starts and stops captures; a singleton."""

    def __init__(self) -> None:
        self._scope: MTLCaptureScope | None = None

    @classmethod
    def sharedCaptureManager(cls) -> MTLCaptureManager:
        return _shared

    def supportsDestination_(self, destination: int) -> bool:
        return whole(destination, "destination") == c.MTLCaptureDestinationGPUTraceDocument and may_capture()

    def startCaptureWithDescriptor_error_(self, descriptor: MTLCaptureDescriptor, error: None) -> Any:
        unwanted(error, "error")
        problem = self._start(instance(descriptor, MTLCaptureDescriptor, "descriptor"))
        return answer(problem is None, (error, problem))

    def stopCapture(self) -> None:
        active.current = None

    def isCapturing(self) -> bool:
        return active.current is not None

    def newCaptureScopeWithDevice_(self, device: MTLDevice) -> MTLCaptureScope:
        return MTLCaptureScope(instance(device, MTLDevice, "device"))

    def newCaptureScopeWithCommandQueue_(self, queue: MTLCommandQueue) -> MTLCaptureScope:
        return MTLCaptureScope(instance(queue, MTLCommandQueue, "commandQueue").device(), queue)

    def defaultCaptureScope(self) -> MTLCaptureScope | None:
        return self._scope

    def setDefaultCaptureScope_(self, scope: MTLCaptureScope | None) -> None:
        self._scope = maybe(MTLCaptureScope)(scope, "scope")

    def _start(self, asked: MTLCaptureDescriptor) -> NSError | None:
        from .device import MTLDevice

        target = asked.captureObject()
        if not isinstance(target, (MTLDevice, MTLCommandQueue, MTLCaptureScope)):
            return _refusal(c.MTLCaptureErrorInvalidDescriptor, "captureObject must be a device, a queue or a scope.")
        options = (target if isinstance(target, MTLDevice) else target.device()).state.options
        if not options.capture_enabled or asked.destination() != c.MTLCaptureDestinationGPUTraceDocument:
            return _refusal(c.MTLCaptureErrorNotSupported, "Capturing is not supported.")
        if active.current is not None:
            return _refusal(c.MTLCaptureErrorAlreadyCapturing, "Already capturing.")
        url = asked.outputURL()
        if url is None:
            return _refusal(c.MTLCaptureErrorInvalidDescriptor, "Capturing to a document needs an output URL.")
        if Path(url.path()).exists():
            return _refusal(c.MTLCaptureErrorInvalidDescriptor, f"Output URL already exists: {url.path()}")
        try:
            active.current = Capture(_covers(target), Path(url.path()), dump=options.capture_buffers)
        except OSError as problem:
            return _refusal(c.MTLCaptureErrorInvalidDescriptor, f"Output URL is not writable: {problem}")
        return None


_shared = MTLCaptureManager()


def _covers(target: MTLDevice | MTLCommandQueue | MTLCaptureScope) -> Callable[[QueueState], bool]:
    if isinstance(target, MTLCaptureScope):
        return target.covers
    state = target.state
    return lambda queue: state in (queue, queue.device)


def _refusal(code: int, message: str) -> NSError:
    return NSError(c.MTLCaptureErrorDomain, code, message)
