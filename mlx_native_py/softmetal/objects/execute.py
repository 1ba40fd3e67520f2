"""Runs a command buffer's commands in order, turning kernel faults into error objects."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import constants as c
from .. import memory
from ..misuse import MetalMisuse
from .base import NSObject
from .checking import Checker
from .commands import BlitPass, Signal, WaitFor
from .foundation import NSArray, NSError
from .passes import Attachment, Dispatch, Epoch, LostResource, Pass, Sample
from .process import report

if TYPE_CHECKING:
    from .command_buffer import MTLCommandBuffer

_FOREVER = 1e9
FINDING_KEY = "SoftMetalFinding"  # in an error's userInfo: the exception of checked mode
FAULT_CODES = {
    "timeout": c.MTLCommandBufferErrorTimeout,
    "bad address": c.MTLCommandBufferErrorPageFault,
    "stack overflow": c.MTLCommandBufferErrorStackOverflow,
    "out of memory": c.MTLCommandBufferErrorOutOfMemory,
    "checked": c.MTLCommandBufferErrorPageFault,
}
CODE_TEXTS = {
    c.MTLCommandBufferErrorInternal: "Internal Error",
    c.MTLCommandBufferErrorTimeout: "Caused GPU Timeout Error",
    c.MTLCommandBufferErrorPageFault: "Caused GPU Address Fault Error",
    c.MTLCommandBufferErrorOutOfMemory: "Insufficient Memory",
    c.MTLCommandBufferErrorInvalidResource: "Invalid Resource",
    c.MTLCommandBufferErrorStackOverflow: "Stack Overflow",
}


@dataclass(frozen=True)
class Outcome:
    """When the device began and ended, in seconds of the monotonic clock, and what went wrong."""

    start: float
    end: float
    error: NSError | None
    finding: Exception | None  # what checked mode raises at waitUntilCompleted


class Stopped(Exception):
    """A command could not be carried out."""

    def __init__(self, code: int, message: str, place: int, finding: Exception | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.place = place  # of the pass among the commands
        self.finding = finding


class MTLCommandBufferEncoderInfo(NSObject):
    """How far one encoder came."""

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


class Execution:
    """Collects dispatches and hands them to the runtime in as few calls as possible."""

    def __init__(self, buffer: MTLCommandBuffer) -> None:
        self._buffer = buffer
        self._options = buffer._device._options
        self._pending: list[tuple[Dispatch, int]] = []
        self._times: list[Any] = []  # of every dispatch so far
        self._marks: list[tuple[Attachment, int, int]] = []  # passes to sample, by their dispatches' numbers
        self._resident = self._standing_residents()
        self._checker = Checker(self._resident) if self._options.checked else None
        self.start_ns = 0
        self.end_ns = 0

    def perform(self) -> None:
        for place, command in enumerate(self._buffer._commands):
            try:
                self._one(command, place)
            except MetalMisuse as misuse:
                self.flush()
                raise Stopped(c.MTLCommandBufferErrorInvalidResource, str(misuse), place) from None
        self.flush()
        self._take_samples()

    def _one(self, command: Any, place: int) -> None:
        if isinstance(command, Pass):
            self._compute(command, place)
            return
        self.flush()
        self._take_samples()
        if isinstance(command, BlitPass):
            for blit in command.blits:
                blit.run()
            self._touch(time.monotonic_ns())
        elif isinstance(command, Signal):
            command.event._signal(command.value)
        else:
            self._wait(command, place)

    def _wait(self, command: WaitFor, place: int) -> None:
        worker = self._buffer._queue._worker
        worker.blocked = True
        try:
            reached = command.event._wait(command.value, _FOREVER, lambda: worker.closed)
        finally:
            worker.blocked = False
        if not reached:
            raise Stopped(
                c.MTLCommandBufferErrorNotPermitted, "the queue was closed while it waited for an event", place
            )

    def _compute(self, work: Pass, place: int) -> None:
        """One pass: each epoch's dispatches in the order of the schedule."""
        first = self._count()
        if self._checker is not None:
            self._checker.begin(work)
        for epoch in work.resolved(self._resident):
            if self._checker is not None:
                self._checker.barrier(epoch)
            for item in self._ordered(epoch, work.concurrent):
                if isinstance(item, Sample):
                    self.flush()
                    item.buffer._samples[item.index] = time.monotonic_ns()
                else:
                    self._dispatch(item, place)
        self._marks.extend((attachment, first, self._count()) for attachment in work.attachments)

    def _ordered(self, epoch: Epoch, concurrent: bool) -> Sequence[Dispatch | Sample]:
        schedule = self._options.schedule
        if not concurrent or len(epoch.items) < 2 or schedule == "ordered":
            return epoch.items
        if schedule == "reversed":
            return epoch.items[::-1]
        items = list(epoch.items)
        random.Random(f"{schedule}/{self._buffer._serial}/{self._count()}").shuffle(items)
        return items

    def _dispatch(self, dispatch: Dispatch, place: int) -> None:
        if not self._buffer._retained:
            self._check_memory(dispatch)
        if dispatch.indirect is not None:
            self.flush()
            if not _read_counts(dispatch, dispatch.indirect):
                return
        self._pending.append((dispatch, place))
        if self._checker is not None:
            self.flush()

    def _check_memory(self, dispatch: Dispatch) -> None:
        """Memory may be gone where the command buffer does not hold on to it."""
        for slot, allocation in enumerate(dispatch.allocations):
            if allocation is not None and not allocation.live:
                raise LostResource(
                    f"kernel {dispatch.kernel}: buffer {allocation.label or ''!r} at index {slot} was "
                    "released before the command buffer ran"
                )

    def flush(self) -> None:
        """Runs what is pending."""
        if not self._pending:
            return
        from ..engines import KernelFault

        pending, self._pending = self._pending, []
        for dispatch, _ in pending:
            dispatch.pipeline._aim(dispatch.launch, dispatch.shape)
        check = self._checker.prepare(pending[0][0]) if self._checker is not None else None
        try:
            result = self._buffer._device._runtime.run(
                [dispatch.launch for dispatch, _ in pending], self._options.watchdog_seconds, self._options.threads or 0
            )
        except KernelFault as fault:
            self._touch(time.monotonic_ns())
            raise self._stopped(fault, *pending[fault.launch]) from None
        finally:
            if check is not None and self._checker is not None:
                self._checker.collect(pending[0][0], check)
        self._times.extend(result.times)
        self.start_ns = self.start_ns or result.times[0].start_ns
        self.end_ns = result.times[-1].end_ns
        self._take_samples()

    def _count(self) -> int:
        return len(self._times) + len(self._pending)

    def _take_samples(self) -> None:
        """An empty pass leaves its samples as they were, as on Metal."""
        marks, self._marks = self._marks, []
        for attachment, first, last in marks:
            if last > first:
                _sample(attachment, self._times[first].start_ns, self._times[last - 1].end_ns)

    def _stopped(self, fault: Any, dispatch: Dispatch, place: int) -> Stopped:
        code = FAULT_CODES.get(fault.kind, c.MTLCommandBufferErrorInternal)
        where = f"thread {fault.thread} of threadgroup {fault.group}" if fault.thread else f"threadgroup {fault.group}"
        limit = f" after {self._options.watchdog_seconds:g} s" if fault.kind == "timeout" else ""
        return Stopped(code, f"kernel {dispatch.label}: {fault.kind}{fault.detail}{limit}, {where}", place)

    def _touch(self, now: int) -> None:
        self.start_ns = self.start_ns or now
        self.end_ns = now

    def _standing_residents(self) -> dict[memory.Allocation, int]:
        sets = (*self._buffer._queue._residency, *self._buffer._residency)
        both = c.MTLResourceUsageRead | c.MTLResourceUsageWrite
        return {allocation: both for residency in sets for allocation in residency._resident()}

    def finding(self) -> Exception | None:
        return self._checker.finding() if self._checker is not None else None


def _read_counts(dispatch: Dispatch, source: tuple[memory.Allocation, int]) -> bool:
    """Takes the threadgroup counts from memory; a zero means that nothing runs."""
    allocation, offset = source
    if not allocation.live:
        raise LostResource(f"kernel {dispatch.kernel}: its indirect arguments were released before it ran")
    counts = tuple(memory.view(allocation.address + offset, 12).cast("I"))
    launch = dispatch.launch
    for axis, count in enumerate(counts):
        if count * launch.group[axis] >= 1 << 32:
            raise LostResource(f"kernel {dispatch.kernel}: its indirect arguments ask for {counts} threadgroups")
        launch.groups[axis] = count
        launch.threads[axis] = count * launch.group[axis]
    if math.prod(launch.threads) >= 1 << 64:
        raise LostResource(f"kernel {dispatch.kernel}: its indirect arguments ask for {counts} threadgroups")
    return all(counts)


def _sample(attachment: Attachment, start_ns: int, end_ns: int) -> None:
    if attachment.start is not None:
        attachment.buffer._samples[attachment.start] = start_ns
    if attachment.end is not None:
        attachment.buffer._samples[attachment.end] = end_ns


def execute(buffer: MTLCommandBuffer) -> Outcome:
    """Runs everything; never raises, because nobody could catch it."""
    begin = time.monotonic_ns()
    try:
        return _outcome(buffer, Execution(buffer), begin)
    except Exception as broken:
        if not buffer._queue._worker.closed:  # a process that ends may take the compiler away
            report(broken)
        error = _error(buffer, Stopped(c.MTLCommandBufferErrorInternal, repr(broken), -1))
        return Outcome(begin / 1e9, time.monotonic_ns() / 1e9, error, None)


def _outcome(buffer: MTLCommandBuffer, run: Execution, begin: int) -> Outcome:
    failure: Stopped | None = None
    try:
        run.perform()
    except Stopped as stopped:
        failure = stopped
    finding = run.finding()
    if finding is not None:
        code, place = (failure.code, failure.place) if failure else (c.MTLCommandBufferErrorInvalidResource, -1)
        failure = Stopped(code, str(finding), place, finding)
    error = _error(buffer, failure) if failure else None
    end = time.monotonic_ns()
    return Outcome((run.start_ns or begin) / 1e9, (run.end_ns or end) / 1e9, error, finding)


def _error(buffer: MTLCommandBuffer, stopped: Stopped) -> NSError:
    name = f" of command buffer {buffer._label!r}" if buffer._label else ""
    message = f"{CODE_TEXTS.get(stopped.code, 'Error')} ({stopped.code}): {stopped}{name}"
    info: dict[str, object] = {}
    if buffer._error_options & c.MTLCommandBufferErrorOptionEncoderExecutionStatus:
        info[c.MTLCommandBufferEncoderInfoErrorKey] = _encoder_infos(buffer, stopped.place)
    if stopped.finding is not None:
        info[FINDING_KEY] = stopped.finding
    return NSError(c.MTLCommandBufferErrorDomain, stopped.code, message, info)


def _encoder_infos(buffer: MTLCommandBuffer, faulted: int) -> NSArray[MTLCommandBufferEncoderInfo]:
    infos = []
    for place, command in enumerate(buffer._commands):
        if isinstance(command, (Pass, BlitPass)):
            state = c.MTLCommandEncoderErrorStateFaulted
            if place != faulted:
                before = c.MTLCommandEncoderErrorStateCompleted
                state = before if place < faulted else c.MTLCommandEncoderErrorStatePending
            infos.append(MTLCommandBufferEncoderInfo(command.label, state, command.signposts))
    return NSArray(infos)
