"""Runs a command buffer's commands in order, and converts kernel faults to failures."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import constants as c
from .. import memory
from ..engines.runtime import KernelFault
from ..misuse import MetalMisuse
from ..process import report
from .checking import Checker
from .command_buffer import CommandBufferState, CommandOutcome, Failure
from .commands import BlitPass, Command, Fail, Signal, WaitFor
from .fault_text import fault_text
from .indirect import Replay
from .launches import LaunchBatch
from .passes import Attachment, EncodedDispatch, Epoch, LostResource, Pass, Sample
from .repeating import Repetition, kernels_of, memory_of, order_dependence, order_groups
from .residency import Resident, joined

FAULT_CODES = {
    "timeout": c.MTLCommandBufferErrorTimeout,
    "bad address": c.MTLCommandBufferErrorPageFault,
    "stack overflow": c.MTLCommandBufferErrorStackOverflow,
    "out of memory": c.MTLCommandBufferErrorOutOfMemory,
    "checked": c.MTLCommandBufferErrorPageFault,
    "forbidden system call": c.MTLCommandBufferErrorNotPermitted,
}
CODE_TEXTS = {
    c.MTLCommandBufferErrorInternal: "Internal Error",
    c.MTLCommandBufferErrorTimeout: "Caused GPU Timeout Error",
    c.MTLCommandBufferErrorPageFault: "Caused GPU Address Fault Error",
    c.MTLCommandBufferErrorOutOfMemory: "Insufficient Memory",
    c.MTLCommandBufferErrorInvalidResource: "Invalid Resource",
    c.MTLCommandBufferErrorNotPermitted: "Not Permitted",
    c.MTLCommandBufferErrorStackOverflow: "Stack Overflow",
}


class Stopped(Exception):
    """A command could not be executed."""

    def __init__(self, code: int, message: str, place: int, finding: Exception | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.place = place  # of the pass among the commands
        self.finding = finding


class Execution:
    """Collects dispatches and passes them to the runtime in as few calls as possible."""

    def __init__(self, work: CommandBufferState, standing: Resident, wait_for: Callable[[WaitFor], bool]) -> None:
        self._work = work
        self._options = work.device.options
        self._wait_for = wait_for
        self._pending: list[EncodedDispatch] = []
        self._place = -1  # of the command that runs
        self._places: list[int] = []  # of the pending dispatches
        self._times: list[tuple[int, int]] = []  # of what ran so far, one entry for each unit
        self._marks: list[tuple[Attachment, int, int]] = []  # passes to sample, by their units' numbers
        self._early: list[Sample] = []  # samples that nothing ran before, since the sample before them
        self._sampled = 0  # units that the last sample came after
        self._resident = standing
        self._schedule = self._options.schedule
        self._differences: list[str] = []
        self._checker = Checker(standing, work.history) if self._options.checked else None
        self.start_ns = 0
        self.end_ns = 0

    def perform(self) -> None:
        first = len(self._work.done)
        for place, command in enumerate(self._work.commands[first:], first):
            self._place = place
            try:
                self._one(command)
            except MetalMisuse as misuse:
                self.flush()
                raise Stopped(c.MTLCommandBufferErrorInvalidResource, str(misuse), place) from None
        self.flush()
        self._take_samples()

    def _one(self, command: Command) -> None:
        if isinstance(command, Pass):
            self._compute(command)
            return
        self.flush()
        self._take_samples()
        if isinstance(command, BlitPass):
            if self._checker is not None:
                self._checker.begin_blits(command)
            for index, blit in enumerate(command.blits):
                blit.run()
                if self._checker is not None:
                    self._checker.blit(index, blit)
            self._touch(time.monotonic_ns())
        elif isinstance(command, Signal):
            if self._checker is not None:
                self._checker.signal(command.event)
            command.event.signal(command.value)
        elif isinstance(command, Fail):
            raise Stopped(command.code, "injected by fail", self._place)
        elif not self._wait_for(command):
            raise Stopped(
                c.MTLCommandBufferErrorNotPermitted, "the queue was closed while it waited for an event", self._place
            )
        elif self._checker is not None:
            self._checker.waited(command.event)

    def _compute(self, work: Pass) -> None:
        first = self._count()
        if self._work.device.orders:
            self._in_many_orders(work)
        else:
            self._once(work)
        self._marks.extend((attachment, first, self._count()) for attachment in work.attachments)

    def _once(self, work: Pass) -> None:
        if self._checker is not None:
            self._checker.begin(work)
        if self._checker is None and (not work.concurrent or self._schedule == "ordered"):
            self._as_encoded(work)
        else:
            self._by_epochs(work)

    def _in_many_orders(self, work: Pass) -> None:
        """Ends after the first run of a pass in which checked mode finds something, which says more."""
        self.flush()
        device = self._work.device
        resident = self._resident
        repetition = Repetition(device.orders, kernels_of(work, resident), memory_of(work, resident))

        def once(order: str) -> bool:
            self._schedule = order
            self._once(work)
            self.flush()
            return self._checker is None or not self._checker.has_findings

        difference = repetition.run(once)
        device.repeated += 1
        if difference:
            self._differences.append(difference)

    def _as_encoded(self, work: Pass) -> None:
        """In the order of encoding, which no barrier changes."""
        for item in (item for epoch in work.epochs for item in epoch):
            if isinstance(item, EncodedDispatch):
                self._dispatch(item)
            elif isinstance(item, Replay):
                self._replay(item)
            elif isinstance(item, Sample):
                self._sample(item)

    def _replay(self, item: Replay) -> None:
        resident = joined(self._resident, item.resident)
        batch = None if self._work.device.orders else item.kept(resident)
        if batch is not None:
            self.flush()
            self._run(batch, [self._place])
            return
        for dispatch in (dispatch for epoch in item.expand(resident) for dispatch in epoch):
            self._dispatch(dispatch)

    def _by_epochs(self, work: Pass) -> None:
        """Each epoch's dispatches in the order of the schedule."""
        for epoch in self._epochs(work):
            if self._checker is not None:
                self._checker.barrier(epoch)
            for item in self._ordered(epoch, work.concurrent):
                if isinstance(item, EncodedDispatch):
                    self._dispatch(item)
                else:
                    self._sample(item)

    def _epochs(self, work: Pass) -> Iterator[Epoch]:
        """With indirect command buffers replaced by the dispatches they hold when their turn comes."""
        for index, epoch in enumerate(work.epochs):
            only = work.only.get(index)
            current: list[Any] = []
            for item in epoch:
                if not isinstance(item, Replay):
                    current.append(item)
                    continue
                first, *later = item.expand(joined(self._resident, item.resident))
                current.extend(first)
                for part in later:
                    yield Epoch(tuple(current), only)
                    current, only = list(part), None
            if current:
                yield Epoch(tuple(current), only)

    def _ordered(self, epoch: Epoch, concurrent: bool) -> Sequence[EncodedDispatch | Sample]:
        schedule = self._schedule
        if not concurrent or len(epoch.items) < 2 or schedule == "ordered":
            return epoch.items
        if schedule == "reversed":
            return epoch.items[::-1]
        items = list(epoch.items)
        random.Random(f"{schedule}/{self._work.serial}/{self._count()}").shuffle(items)
        return items

    def _sample(self, item: Sample) -> None:
        """The end of what ran before it; behind another sample, the start of what runs after it.

        Building a kernel's code is no work of the GPU, so it must not lie between a sample and its dispatch.
        """
        self.flush()
        if len(self._times) > self._sampled:
            item.samples[item.index] = self._times[-1][1]
        else:
            item.samples[item.index] = time.monotonic_ns()
            self._early.append(item)
        self._sampled = len(self._times)

    def _dispatch(self, dispatch: EncodedDispatch) -> None:
        if not self._work.retained:
            check_memory(dispatch)
        if dispatch.indirect is not None:
            self.flush()
            if not _read_counts(dispatch, dispatch.indirect):
                return
        if self._work.device.orders or self._schedule != "ordered":
            order_groups(dispatch, self._schedule)
        self._pending.append(dispatch)
        self._places.append(self._place)
        if self._checker is not None:
            self.flush()

    def flush(self) -> None:
        """Runs what is pending."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        places, self._places = self._places, []
        if self._checker is None:
            self._run(LaunchBatch(pending), places)
            return
        with self._checker.checking(pending[0]):
            self._run(LaunchBatch(pending), places)

    def _run(self, batch: LaunchBatch, places: Sequence[int]) -> None:
        prepared = self._work.device.prepare(batch.launches, len(batch.dispatches))
        function, *arguments = prepared.call
        try:
            prepared.check(function(*arguments))
        except KernelFault as fault:
            self._touch(time.monotonic_ns())
            message = fault_text(fault, batch.dispatches[fault.launch], self._options)
            raise Stopped(fault_code(fault), message, places[min(fault.launch, len(places) - 1)]) from None
        times = prepared.times
        batch.ran(times)
        if len(places) == len(batch.dispatches):
            self._times.extend(zip(times[::2], times[1::2], strict=True))
        else:
            self._times.append((times[0], times[-1]))
        early, self._early = self._early, []
        for item in early:
            item.samples[item.index] = times[0]
        self.start_ns = self.start_ns or times[0]
        self.end_ns = times[-1]
        self._take_samples()

    def _count(self) -> int:
        return len(self._times) + len(self._pending)

    def _take_samples(self) -> None:
        """An empty pass leaves its samples as they were, as on Metal."""
        marks, self._marks = self._marks, []
        for attachment, first, last in marks:
            if last > first:
                attachment.take(self._times[first][0], self._times[last - 1][1])

    def _touch(self, now: int) -> None:
        self.start_ns = self.start_ns or now
        self.end_ns = now

    def finding(self) -> Exception | None:
        if self._checker is not None:
            self._checker.end()
        own = self._checker.finding() if self._checker is not None else None
        return own or order_dependence(self._differences)


def check_memory(dispatch: EncodedDispatch) -> None:
    """Memory may be gone where the command buffer does not hold on to it."""
    for slot, allocation in enumerate(dispatch.allocations):
        if allocation is not None and not allocation.live:
            raise LostResource(
                f"kernel {dispatch.kernel}: buffer {allocation.label or ''!r} at index {slot} was "
                "released before the command buffer ran"
            )
    for argument, texture in dispatch.textures:
        if not texture.allocation.live:
            raise LostResource(
                f"kernel {dispatch.kernel}: texture '{argument.name}' (index {argument.index}) was "
                "released before the command buffer ran"
            )


def fault_code(fault: KernelFault) -> int:
    """The MTLCommandBufferError that stands for a fault."""
    return FAULT_CODES.get(fault.kind, c.MTLCommandBufferErrorInternal)


def _read_counts(dispatch: EncodedDispatch, source: tuple[memory.DeviceMemory, int]) -> bool:
    """Takes the threadgroup counts from memory; a zero means that nothing runs."""
    allocation, offset = source
    if not allocation.live:
        raise LostResource(f"kernel {dispatch.kernel}: its indirect arguments were released before it ran")
    counts = tuple(memory.view(allocation.address + offset, 12).cast("I"))
    launch, threads = dispatch.launch, 1
    for axis, count in enumerate(counts):
        if count * launch.group[axis] >= 1 << 32:
            raise LostResource(f"kernel {dispatch.kernel}: its indirect arguments ask for {counts} threadgroups")
        launch.groups[axis] = count
        launch.threads[axis] = count * launch.group[axis]
        threads *= count * launch.group[axis]
    if threads >= 1 << 64:
        raise LostResource(f"kernel {dispatch.kernel}: its indirect arguments ask for {counts} threadgroups")
    dispatch.threads = threads
    return all(counts)


def execute(
    work: CommandBufferState, standing: Resident, wait_for: Callable[[WaitFor], bool], closed: Callable[[], bool]
) -> CommandOutcome:
    """Runs everything; never raises an error, because nobody could catch it."""
    begin = time.monotonic_ns()
    try:
        return _outcome(work, Execution(work, standing, wait_for), begin)
    except Exception as broken:
        if not closed():  # a process that ends may take the compiler away
            report(broken)
        failure = failed(work, Stopped(c.MTLCommandBufferErrorInternal, repr(broken), -1))
        return CommandOutcome(begin / 1e9, time.monotonic_ns() / 1e9, failure)


def _outcome(work: CommandBufferState, run: Execution, begin: int) -> CommandOutcome:
    stopped: Stopped | None = None
    try:
        run.perform()
    except Stopped as reason:
        stopped = reason.with_traceback(None)  # its frames hold the work
    finding = run.finding()
    if finding is not None:
        code, place = (stopped.code, stopped.place) if stopped else (c.MTLCommandBufferErrorInvalidResource, -1)
        stopped = Stopped(code, str(finding), place, finding)
    failure = failed(work, stopped) if stopped else None
    end = time.monotonic_ns()
    start = work.done[0] if work.done else (run.start_ns or begin) / 1e9
    return CommandOutcome(start, (run.end_ns or end) / 1e9, failure)


def failed(work: CommandBufferState, stopped: Stopped) -> Failure:
    """What the command buffer says about being stopped."""
    name = f" of command buffer {work.label!r}" if work.label else ""
    message = f"{CODE_TEXTS.get(stopped.code, 'Error')} ({stopped.code}){name}: {stopped}"
    told = work.error_options & c.MTLCommandBufferErrorOptionEncoderExecutionStatus
    return Failure(stopped.code, message, stopped.finding, _encoders(work, stopped.place) if told else None)


def _encoders(work: CommandBufferState, faulted: int) -> tuple[tuple[str | None, int, tuple[str, ...]], ...]:
    infos = []
    for place, command in enumerate(work.commands):
        if isinstance(command, (Pass, BlitPass)):
            state = c.MTLCommandEncoderErrorStateFaulted
            if place != faulted:
                before = c.MTLCommandEncoderErrorStateCompleted
                state = before if place < faulted else c.MTLCommandEncoderErrorStatePending
            infos.append((command.label, state, tuple(command.signposts)))
    return tuple(infos)
