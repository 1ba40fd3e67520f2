"""Command buffers: recorded and committed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import ref

from .. import constants as c
from ..execution.capture import active, captures_of
from ..execution.command_buffer import CommandBufferState, Failure
from ..execution.commands import BlitPass, Signal, WaitFor
from ..execution.passes import Pass
from ..execution.queue import ENDING, QueueState
from ..misuse import EndlessWait, InvalidValue, MetalMisuse
from ..process import refuse_after_fork
from ..values import handler, instance, natural
from .base import Labelled, NSObject
from .blit_encoder import MTLBlitCommandEncoder
from .compute_encoder import MTLComputeCommandEncoder
from .compute_pass import MTLComputePassDescriptor, open_pass
from .events import MTLEvent
from .foundation import NSArray, NSError
from .owned import Owned
from .residency import MTLResidencySet

FINDING_KEY = "SoftMetalFinding"  # in an error's userInfo: the exception of checked mode
E = TypeVar("E", MTLBlitCommandEncoder, MTLComputeCommandEncoder)
_USUAL = 1 << 32  # values up to here need no closer look
_NAMES = ("not enqueued", "enqueued", "committed", "scheduled", "completed", "failed")


class MTLCommandBufferEncoderInfo(NSObject):
    """The progress of one encoder."""

    def __init__(self, label: str | None, state: int, signposts: Sequence[str]) -> None:
        self._label = label
        self._state = state
        self._signposts = NSArray(signposts)

    def label(self) -> str | None:
        return self._label

    def errorState(self) -> int:
        return self._state

    def debugSignposts(self) -> NSArray[str]:
        return self._signposts


class MTLCommandBuffer(Owned, Labelled):
    """Work for a queue. An exception in a handler is raised by waitUntilCompleted; Metal would abort."""

    _error: NSError | None = None

    def __init__(self, owner: Owned, queue: QueueState, work: CommandBufferState) -> None:
        self._device = owner.device()
        self._owner = owner
        self._queue = queue
        self.state = work

    def setLabel_(self, label: str | None) -> None:
        super().setLabel_(label)
        self.state.label = self._label

    def commandQueue(self) -> Owned:
        return self._owner

    def retainedReferences(self) -> bool:
        return self.state.retained

    def errorOptions(self) -> int:
        return self.state.error_options

    def status(self) -> int:
        work = self.state
        status = work.status(self._queue.order.get(work))
        if work.history is not None and status >= c.MTLCommandBufferStatusCompleted:
            work.seen()
        return status

    def error(self) -> NSError | None:
        outcome = self.state.outcome
        if outcome is not None and outcome.failure is not None and self._error is None:
            self._error = _error(outcome.failure)
        return self._error

    def logs(self) -> NSArray[Any]:
        return NSArray()

    def GPUStartTime(self) -> float:
        return self.state.outcome.start if self.state.outcome else 0.0

    def GPUEndTime(self) -> float:
        return self.state.outcome.end if self.state.outcome else 0.0

    def kernelStartTime(self) -> float:
        return self.state.kernel_start

    def kernelEndTime(self) -> float:
        return self.state.kernel_end

    def computeCommandEncoder(self) -> MTLComputeCommandEncoder:
        return self._compute(Pass(concurrent=False))

    def computeCommandEncoderWithDispatchType_(self, dispatch_type: int) -> MTLComputeCommandEncoder:
        if dispatch_type.__class__ is not int or dispatch_type not in (0, 1):
            kind = natural(dispatch_type, "dispatchType")
            if kind > c.MTLDispatchTypeConcurrent:
                raise InvalidValue(f"dispatchType {kind}: expected serial (0) or concurrent (1)")
        return self._compute(Pass(dispatch_type == c.MTLDispatchTypeConcurrent))

    def computeCommandEncoderWithDescriptor_(self, descriptor: MTLComputePassDescriptor) -> MTLComputeCommandEncoder:
        return self._compute(open_pass(instance(descriptor, MTLComputePassDescriptor, "descriptor"), self._device))

    def blitCommandEncoder(self) -> MTLBlitCommandEncoder:
        self._between_encoders("blitCommandEncoder")
        work = BlitPass()
        encoder = MTLBlitCommandEncoder(self, self.state, work)
        return self._opened(encoder, work)

    def encodeSignalEvent_value_(self, event: MTLEvent, value: int) -> None:
        self._between_encoders("encodeSignalEvent_value_")
        signalled = event.state if isinstance(event, MTLEvent) else instance(event, MTLEvent, "event").state
        signalled.runner = self._queue
        reached = value if value.__class__ is int and 0 <= value < _USUAL else natural(value, "value")
        self.state.commands.append(Signal(signalled, reached))

    def encodeWaitForEvent_value_(self, event: MTLEvent, value: int) -> None:
        self._between_encoders("encodeWaitForEvent_value_")
        self.state.commands.append(WaitFor(instance(event, MTLEvent, "event").state, natural(value, "value")))

    def useResidencySet_(self, residency: MTLResidencySet) -> None:
        self._recording("useResidencySet_")
        member = instance(residency, MTLResidencySet, "residencySet").state
        self.state.residency = {**self.state.residency, member: None}

    def addScheduledHandler_(self, block: Callable[[MTLCommandBuffer], object]) -> None:
        self._recording("addScheduledHandler_")
        self.state.scheduled_handlers = (*self.state.scheduled_handlers, handler(block, "block"))

    def addCompletedHandler_(self, block: Callable[[MTLCommandBuffer], object]) -> None:
        self._recording("addCompletedHandler_")
        self.state.completed_handlers = (*self.state.completed_handlers, handler(block, "block"))

    def enqueue(self) -> None:
        """Reserves the place in the queue's order."""
        self._recording("enqueue")
        self._queue.enqueue(self.state, self)

    def commit(self) -> None:
        self._between_encoders("commit")
        if self.state.lost_encoder:
            raise MetalMisuse(f"commit of {self!r}: one of its encoders was released without endEncoding")
        if active.current is not None:
            self.state.captures = captures_of(self._queue)
            for capture in self.state.captures:
                capture.committed(self._queue, self.state)
        self._queue.commit(self.state, self)

    def waitUntilScheduled(self) -> None:
        self._committed("waitUntilScheduled")
        self._wait(lambda: self.state.scheduled, "waitUntilScheduled")

    def waitUntilCompleted(self) -> None:
        """Returns after the work and its handlers; Ctrl-C ends only the wait. Raises what checked mode found."""
        work = self.state
        if not work.finished:
            self._committed("waitUntilCompleted")
            while not work.finished and self._queue.run_next():
                pass
            self._wait(lambda: work.finished or work.is_left(), "waitUntilCompleted")
        if work.history is not None:
            work.seen()
        if work.outcome is not None and work.outcome.failure is not None and work.outcome.failure.finding is not None:
            raise work.outcome.failure.finding
        problem, work.handler_error = work.handler_error, None
        if problem is not None:
            raise MetalMisuse(f"a handler of {self!r} raised {problem!r}; on Metal the process dies there") from problem

    def _committed(self, call: str) -> None:
        if (status := self.status()) < c.MTLCommandBufferStatusCommitted:
            raise MetalMisuse(f"{call} on {self!r}, which is {_NAMES[status]}: it would wait for ever")

    def _wait(self, reached: Callable[[], bool], call: str) -> None:
        if reached():
            return
        if self._queue.is_current_thread():
            raise EndlessWait(
                f"{call} on {self!r} from a handler or finaliser on its queue's thread would wait for ever"
            )
        if not self._queue.wait(self.state, reached, self._queue.waits_in_vain):
            refuse_after_fork()
            raise EndlessWait(f"{call} on {self!r}: {ENDING}")

    def _compute(self, work: Pass) -> MTLComputeCommandEncoder:
        self._between_encoders("computeCommandEncoder")
        return self._opened(MTLComputeCommandEncoder(self, self.state, work), work)

    def _opened(self, encoder: E, work: Pass | BlitPass) -> E:
        state = self.state
        state.commands.append(work)
        encoder.is_open = True
        state.encoding = ref(encoder, state.lose)
        return encoder

    def _recording(self, call: str) -> None:
        work = self.state
        if work.started or work.outcome is not None or self._queue.order.get(work):
            raise MetalMisuse(f"{call} on {self!r}, which is {_NAMES[self.status()]} already")

    def _between_encoders(self, call: str) -> None:
        work = self.state
        if work.encoding or work.started or work.outcome is not None or self._queue.order.get(work):
            self._recording(call)
            raise MetalMisuse(f"{call} on {self!r} while an encoder is open: call its endEncoding first")


def _error(failure: Failure) -> NSError:
    info: dict[str, object] = {}
    if failure.encoders is not None:
        told = NSArray(MTLCommandBufferEncoderInfo(*each) for each in failure.encoders)
        info[c.MTLCommandBufferEncoderInfoErrorKey] = told
    if failure.finding is not None:
        info[FINDING_KEY] = failure.finding
    return NSError(c.MTLCommandBufferErrorDomain, failure.code, failure.message, info)
