"""Command buffers: recorded once, committed once, run by the queue's worker, and asked about the outcome."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import constants as c
from ..misuse import InvalidValue, MetalMisuse
from .base import Labelled
from .capture import Capture, captures_of
from .commands import BlitPass, Command, Signal, WaitFor
from .compute_pass import MTLComputePassDescriptor
from .events import MTLEvent
from .foundation import NSArray, NSError
from .inline import InlineBytes
from .passes import Pass
from .residency import MTLResidencySet
from .values import handler, instance, natural

if TYPE_CHECKING:
    from .blit_encoder import MTLBlitCommandEncoder
    from .compute_encoder import MTLComputeCommandEncoder
    from .device import MTLDevice
    from .queue import MTLCommandQueue

_TICK = 0.1
_NAMES = ("not enqueued", "enqueued", "committed", "scheduled", "completed", "failed")


def _forget(_: object) -> None:
    """Retains nothing."""


class MTLCommandBuffer(Labelled):
    """Work for a queue. An exception in a handler is raised by waitUntilCompleted; Metal would end the process."""

    def __init__(self, queue: MTLCommandQueue, *, retained: bool, error_options: int) -> None:
        self._queue = queue
        self._device = queue._device
        self._serial = next(queue._serials)
        self._retained = retained
        self._error_options = error_options
        self._keep: set[Any] = set()
        self._retain: Callable[[Any], None] = self._keep.add if retained else _forget
        self._commands: list[Command] = []
        self._inline = InlineBytes(self._device._inline_pool)
        self._residency: dict[MTLResidencySet, None] = {}
        self._status = c.MTLCommandBufferStatusNotEnqueued
        self._encoding = False
        self._lost_encoder = False
        self._error: NSError | None = None
        self._finding: Exception | None = None
        self._gpu_times = (0.0, 0.0)
        self._kernel_times = (0.0, 0.0)
        self._handlers: tuple[list[Callable[..., object]], list[Callable[..., object]]] = ([], [])
        self._handler_error: BaseException | None = None
        self._scheduled = threading.Event()
        self._completed = threading.Event()
        self._captures: tuple[Capture, ...] = ()

    def device(self) -> MTLDevice:
        return self._device

    def commandQueue(self) -> MTLCommandQueue:
        return self._queue

    def retainedReferences(self) -> bool:
        return self._retained

    def errorOptions(self) -> int:
        return self._error_options

    def status(self) -> int:
        return self._status

    def error(self) -> NSError | None:
        return self._error

    def logs(self) -> NSArray[Any]:
        return NSArray()

    def GPUStartTime(self) -> float:
        return self._gpu_times[0]

    def GPUEndTime(self) -> float:
        return self._gpu_times[1]

    def kernelStartTime(self) -> float:
        return self._kernel_times[0]

    def kernelEndTime(self) -> float:
        return self._kernel_times[1]

    def computeCommandEncoder(self) -> MTLComputeCommandEncoder:
        return self._compute(Pass(concurrent=False))

    def computeCommandEncoderWithDispatchType_(self, dispatch_type: int) -> MTLComputeCommandEncoder:
        kind = natural(dispatch_type, "dispatchType")
        if kind > c.MTLDispatchTypeConcurrent:
            raise InvalidValue(f"dispatchType {kind}: expected serial (0) or concurrent (1)")
        return self._compute(Pass(concurrent=kind == c.MTLDispatchTypeConcurrent))

    def computeCommandEncoderWithDescriptor_(self, descriptor: MTLComputePassDescriptor) -> MTLComputeCommandEncoder:
        asked = instance(descriptor, MTLComputePassDescriptor, "descriptor")
        return self._compute(asked._open(self._device))

    def blitCommandEncoder(self) -> MTLBlitCommandEncoder:
        from .blit_encoder import MTLBlitCommandEncoder

        self._begin_encoder("blitCommandEncoder")
        work = BlitPass()
        self._commands.append(work)
        return MTLBlitCommandEncoder(self, work)

    def encodeSignalEvent_value_(self, event: MTLEvent, value: int) -> None:
        self._between_encoders("encodeSignalEvent_value_")
        self._commands.append(Signal(instance(event, MTLEvent, "event"), natural(value, "value")))

    def encodeWaitForEvent_value_(self, event: MTLEvent, value: int) -> None:
        self._between_encoders("encodeWaitForEvent_value_")
        self._commands.append(WaitFor(instance(event, MTLEvent, "event"), natural(value, "value")))

    def useResidencySet_(self, residency: MTLResidencySet) -> None:
        self._recording("useResidencySet_")
        self._residency[instance(residency, MTLResidencySet, "residencySet")] = None

    def addScheduledHandler_(self, block: Callable[[MTLCommandBuffer], object]) -> None:
        self._recording("addScheduledHandler_")
        self._handlers[0].append(handler(block, "block"))

    def addCompletedHandler_(self, block: Callable[[MTLCommandBuffer], object]) -> None:
        self._recording("addCompletedHandler_")
        self._handlers[1].append(handler(block, "block"))

    def enqueue(self) -> None:
        """Reserves the place in the queue's order."""
        self._recording("enqueue")
        if self._status == c.MTLCommandBufferStatusNotEnqueued:
            self._status = c.MTLCommandBufferStatusEnqueued
            self._queue._worker.enqueue(self)

    def commit(self) -> None:
        self._between_encoders("commit")
        if self._lost_encoder:
            raise MetalMisuse(f"commit of {self!r}: one of its encoders was released without endEncoding")
        self.enqueue()
        self._captures = captures_of(self._queue)
        for capture in self._captures:
            capture.committed(self)
        self._status = c.MTLCommandBufferStatusCommitted
        self._queue._worker.commit()

    def waitUntilScheduled(self) -> None:
        self._wait(self._scheduled, "waitUntilScheduled")

    def waitUntilCompleted(self) -> None:
        """Returns after the work and its handlers; Ctrl-C ends only the wait. Raises what checked mode found."""
        self._wait(self._completed, "waitUntilCompleted")
        if self._finding is not None:
            raise self._finding
        problem, self._handler_error = self._handler_error, None
        if problem is not None:
            raise MetalMisuse(f"a handler of {self!r} raised {problem!r}; on Metal the process dies there") from problem

    def _wait(self, reached: threading.Event, call: str) -> None:
        if self._status < c.MTLCommandBufferStatusCommitted:
            raise MetalMisuse(f"{call} on {self!r}, which is {_NAMES[self._status]}: it would wait for ever")
        if self._queue._worker.is_current_thread() and not reached.is_set():
            raise MetalMisuse(f"{call} on {self!r} from a handler of the same queue would wait for ever")
        while not reached.wait(_TICK):
            # A daemon thread ends with the process; any other would hold it up.
            if self._waits_in_vain() and not threading.current_thread().daemon:
                raise MetalMisuse(f"{call} on {self!r}: the process is ending and runs no more command buffers")

    def _waits_in_vain(self) -> bool:
        return self._status == c.MTLCommandBufferStatusCommitted and self._queue._worker.has_stopped()

    def _compute(self, work: Pass) -> MTLComputeCommandEncoder:
        from .compute_encoder import MTLComputeCommandEncoder

        self._begin_encoder("computeCommandEncoder")
        self._commands.append(work)
        return MTLComputeCommandEncoder(self, work)

    def _begin_encoder(self, call: str) -> None:
        self._between_encoders(call)
        self._encoding = True

    def _encoder_ended(self) -> None:
        self._encoding = False

    def _encoder_lost(self) -> None:
        self._encoding = False
        self._lost_encoder = True

    def _recording(self, call: str) -> None:
        if self._status >= c.MTLCommandBufferStatusCommitted:
            raise MetalMisuse(f"{call} on {self!r}, which is {_NAMES[self._status]} already")

    def _between_encoders(self, call: str) -> None:
        self._recording(call)
        if self._encoding:
            raise MetalMisuse(f"{call} on {self!r} while an encoder is open: call its endEncoding first")

    def _run(self) -> None:
        """Everything that happens after commit; called once, on the worker. Whatever happens, nobody waits for ever."""
        try:
            self._perform()
        except BaseException as error:
            self._status = c.MTLCommandBufferStatusError
            self._handler_error = self._handler_error or error
        finally:
            self._scheduled.set()
            self._completed.set()

    def _perform(self) -> None:
        from .execute import execute

        self._kernel_times = (time.monotonic(), 0.0)
        self._status = c.MTLCommandBufferStatusScheduled
        self._call(self._handlers[0])
        self._scheduled.set()
        self._kernel_times = (self._kernel_times[0], time.monotonic())
        outcome = execute(self)
        self._gpu_times = outcome.start, outcome.end
        self._error = outcome.error
        self._finding = outcome.finding
        self._status = c.MTLCommandBufferStatusError if outcome.error else c.MTLCommandBufferStatusCompleted
        self._call([capture.completed for capture in self._captures])
        self._release()
        self._call(self._handlers[1])
        self._handlers = ([], [])

    def _release(self) -> None:
        self._commands.clear()
        self._keep.clear()
        self._residency.clear()
        self._inline.release()

    def _call(self, handlers: list[Callable[..., object]]) -> None:
        for block in handlers:
            try:
                block(self)
            except BaseException as error:
                self._handler_error = self._handler_error or error

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing() or "_captures" not in self.__dict__:
            return
        if self._status < c.MTLCommandBufferStatusCommitted:
            self._inline.release()
            self._queue._worker.drop_slot()
        if self._handler_error is not None:
            raise MetalMisuse(f"a handler of {self!r} raised, and nobody waited for it") from self._handler_error
