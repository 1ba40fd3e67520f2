"""The capture manager: writes what queues do into a folder that a person can read."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import constants as c
from ..misuse import MetalMisuse
from .base import Descriptor, Labelled, NSObject, attribute
from .commands import BlitPass, Signal, WaitFor
from .foundation import NSURL, NSError
from .passes import Dispatch, Pass, Replay
from .values import answer, instance, maybe, unwanted, whole

if TYPE_CHECKING:
    from .command_buffer import MTLCommandBuffer
    from .device import MTLDevice
    from .queue import MTLCommandQueue


def _any(value: Any, what: str) -> Any:
    return value


class MTLCaptureDescriptor(Descriptor):
    """What to capture and where to."""

    captureObject, setCaptureObject_ = attribute("captureObject", _any, None)
    destination, setDestination_ = attribute("destination", whole, c.MTLCaptureDestinationDeveloperTools)
    outputURL, setOutputURL_ = attribute("outputURL", maybe(NSURL), None)


class MTLCaptureScope(Labelled):
    """A stretch of time, marked by its owner, that a capture is limited to."""

    def __init__(self, device: MTLDevice, queue: MTLCommandQueue | None = None) -> None:
        self._device = device
        self._queue = queue
        self._inside = False

    def device(self) -> MTLDevice:
        return self._device

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


class Capture:
    """A folder being written: one line of JSON for each command buffer when committed and when completed."""

    def __init__(self, target: Any, folder: Path, *, dump: bool) -> None:
        self._target = target
        self._folder = folder
        self._dump = dump
        self._lock = threading.Lock()
        (folder / "sources").mkdir(parents=True)
        (folder / "README.txt").write_text(
            "capture.jsonl: one JSON object per line, for each command buffer 'committed' with all its commands, then "
            "'completed' with times and error.\nsources: the MSL of the kernels, by digest.\n"
            "buffers: contents after the command buffer, where dumping was asked for.\n"
        )

    def covers(self, queue: MTLCommandQueue) -> bool:
        target = self._target
        if isinstance(target, MTLCaptureScope):
            return target._inside and target._device is queue.device() and target._queue in (None, queue)
        return target is queue or target is queue.device()

    def committed(self, buffer: MTLCommandBuffer) -> None:
        commands = [self._command(command) for command in buffer._commands]
        self._write({"event": "committed", **_identity(buffer), "commands": commands})

    def completed(self, buffer: MTLCommandBuffer) -> None:
        error = buffer.error()
        self._write(
            {
                "event": "completed",
                **_identity(buffer),
                "status": buffer.status(),
                "gpu_start": buffer.GPUStartTime(),
                "gpu_end": buffer.GPUEndTime(),
                "error": None if error is None else error.localizedDescription(),
                "buffers": self._contents(buffer) if self._dump else [],
            }
        )

    def _command(self, command: Any) -> dict[str, Any]:
        if isinstance(command, Pass):
            epochs = [[self._item(item) for item in epoch] for epoch in command.epochs if epoch]
            return {
                "kind": "compute",
                "label": command.label,
                "concurrent": command.concurrent,
                "epochs": epochs,
                "signposts": command.signposts,
            }
        if isinstance(command, BlitPass):
            return {
                "kind": "blit",
                "label": command.label,
                "blits": [{"name": blit.name, "detail": blit.detail} for blit in command.blits],
            }
        kind = {Signal: "signal", WaitFor: "wait"}[type(command)]
        return {"kind": kind, "event": command.event.label(), "value": command.value}

    def _item(self, item: Any) -> dict[str, Any]:
        if isinstance(item, Dispatch):
            return self._dispatch(item)
        if isinstance(item, Replay):
            return {"replay": item.commands.label(), "first": item.first, "count": item.count}
        return {"sample": item.index}

    def _dispatch(self, dispatch: Dispatch) -> dict[str, Any]:
        launch, library = dispatch.launch, dispatch.pipeline._function._library
        source = self._folder / "sources" / f"{library._digest}.metal"
        if not source.exists():
            source.write_text(library._source)
        return {
            "kernel": dispatch.kernel,
            "group": dispatch.group,
            "label": dispatch.pipeline.label(),
            "engine": dispatch.pipeline.soft_engine(),
            "source": source.name,
            "constants": {str(k): v.hex() for k, v in dispatch.pipeline._function._constants.items()},
            "threads": list(launch.threads),
            "threadgroups": list(launch.groups),
            "threads_per_threadgroup": list(launch.group),
            "threadgroup_bytes": launch.tg_bytes,
            "indirect": dispatch.indirect is not None,
            "bindings": [_binding(dispatch, argument) for argument in dispatch.pipeline._code.kernel.arguments],
        }

    def _contents(self, buffer: MTLCommandBuffer) -> list[dict[str, Any]]:
        dispatches = [
            item
            for command in buffer._commands
            if isinstance(command, Pass)
            for epoch in command.epochs
            for item in epoch
            if isinstance(item, Dispatch)
        ]
        found = {allocation for item in dispatches for allocation in item.allocations if allocation and allocation.live}
        folder = self._folder / "buffers"
        folder.mkdir(exist_ok=True)
        written = []
        for allocation in sorted(found, key=lambda each: each.address):
            name = f"{buffer._queue._worker._name}-{buffer._serial}-{allocation.address:x}.bin"
            (folder / name).write_bytes(allocation.view())
            written.append({"label": allocation.label, "address": allocation.address, "file": name})
        return written

    def _write(self, line: dict[str, Any]) -> None:
        with self._lock, (self._folder / "capture.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def _identity(buffer: MTLCommandBuffer) -> dict[str, Any]:
    return {
        "queue": buffer._queue.label() or buffer._queue._worker._name,
        "number": buffer._serial,
        "label": buffer.label(),
    }


def _binding(dispatch: Dispatch, argument: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "kind": argument.kind,
        "index": argument.index,
        "name": argument.name,
        "access": argument.access,
        "type": argument.type_name,
    }
    if argument.kind != "buffer":
        return entry
    allocation = dispatch.allocations[argument.index]
    address, length = dispatch.launch.buffers[argument.index] or 0, dispatch.launch.lengths[argument.index]
    if allocation is None:
        from ..memory import view

        return {**entry, "inline": bytes(view(address, length)).hex() if length else ""}
    return {
        **entry,
        "buffer": allocation.label,
        "address": allocation.address,
        "offset": address - allocation.address,
        "length": length,
    }


class MTLCaptureManager(NSObject):
    """Starts and stops captures; there is one."""

    def __init__(self) -> None:
        self._active: Capture | None = None
        self._scope: MTLCaptureScope | None = None

    @classmethod
    def sharedCaptureManager(cls) -> MTLCaptureManager:
        return _shared

    def supportsDestination_(self, destination: int) -> bool:
        from .system import may_capture

        return whole(destination, "destination") == c.MTLCaptureDestinationGPUTraceDocument and may_capture()

    def startCaptureWithDescriptor_error_(self, descriptor: MTLCaptureDescriptor, error: None) -> Any:
        unwanted(error, "error")
        problem = self._start(instance(descriptor, MTLCaptureDescriptor, "descriptor"))
        return answer(problem is None, (error, problem))

    def stopCapture(self) -> None:
        self._active = None

    def isCapturing(self) -> bool:
        return self._active is not None

    def newCaptureScopeWithDevice_(self, device: MTLDevice) -> MTLCaptureScope:
        from .device import MTLDevice

        return MTLCaptureScope(instance(device, MTLDevice, "device"))

    def newCaptureScopeWithCommandQueue_(self, queue: MTLCommandQueue) -> MTLCaptureScope:
        from .queue import MTLCommandQueue

        return MTLCaptureScope(instance(queue, MTLCommandQueue, "commandQueue").device(), queue)

    def defaultCaptureScope(self) -> MTLCaptureScope | None:
        return self._scope

    def setDefaultCaptureScope_(self, scope: MTLCaptureScope | None) -> None:
        self._scope = maybe(MTLCaptureScope)(scope, "scope")

    def _start(self, asked: MTLCaptureDescriptor) -> NSError | None:
        from .device import MTLDevice
        from .queue import MTLCommandQueue

        target = asked.captureObject()
        if not isinstance(target, (MTLDevice, MTLCommandQueue, MTLCaptureScope)):
            return _refusal(c.MTLCaptureErrorInvalidDescriptor, "captureObject must be a device, a queue or a scope.")
        options = (target if isinstance(target, MTLDevice) else target.device())._options
        if not options.capture_enabled or asked.destination() != c.MTLCaptureDestinationGPUTraceDocument:
            return _refusal(c.MTLCaptureErrorNotSupported, "Capturing is not supported.")
        if self._active is not None:
            return _refusal(c.MTLCaptureErrorAlreadyCapturing, "Already capturing.")
        url = asked.outputURL()
        if url is None:
            return _refusal(c.MTLCaptureErrorInvalidDescriptor, "Capturing to a document needs an output URL.")
        if Path(url.path()).exists():
            return _refusal(c.MTLCaptureErrorInvalidDescriptor, f"Output URL already exists: {url.path()}")
        try:
            self._active = Capture(target, Path(url.path()), dump=options.capture_buffers)
        except OSError as problem:
            return _refusal(c.MTLCaptureErrorInvalidDescriptor, f"Output URL is not writable: {problem}")
        return None


_shared = MTLCaptureManager()


def captures_of(queue: MTLCommandQueue) -> tuple[Capture, ...]:
    """The captures that a command buffer of this queue, committed now, belongs to."""
    active = _shared._active
    return (active,) if active is not None and active.covers(queue) else ()


def _refusal(code: int, message: str) -> NSError:
    return NSError(c.MTLCaptureErrorDomain, code, message)
