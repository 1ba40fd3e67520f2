"""Short command buffers as one call of the runtime, which the thread that waits for them makes itself."""

from __future__ import annotations

import time
from typing import Any

from .. import constants as c
from ..engines.runtime import KernelFault
from ..process import report
from .command_buffer import CommandBufferState, CommandOutcome, Failure
from .commands import Signal
from .execute import Stopped, failed, fault_code
from .fault_text import fault_text
from .launches import MOST_TIMED, LaunchBatch
from .passes import EncodedDispatch, Pass

# Ctrl-C is heard only after the call. So nothing longer runs this way, and no loop, which may end late or never.
SHORT_NS = 1_000_000


class DirectRun:
    """All that a command buffer does: one batch of dispatches, then the values that it signals."""

    __slots__ = ("_batch", "_begin", "_places", "_prepared", "_signals")

    def __init__(
        self, work: CommandBufferState, dispatches: list[EncodedDispatch], places: list[int], signals: list[Signal]
    ) -> None:
        self._begin = time.monotonic()
        self._batch = LaunchBatch(dispatches) if dispatches else None
        self._places = places
        self._signals = signals
        self._prepared = self._batch.prepare(work.device.runtime, work.device.options) if self._batch else None

    @property
    def call(self) -> tuple[Any, ...]:
        """What is to be called, with its arguments; it answers 0 unless a kernel was stopped."""
        return (int,) if self._prepared is None else self._prepared.call

    def outcome(self, work: CommandBufferState, answer: int) -> CommandOutcome:
        """What came of the call; may be asked for again."""
        try:
            return self._outcome(work, answer)
        except Exception as broken:
            report(broken)
            return CommandOutcome(self._begin, time.monotonic(), Failure(c.MTLCommandBufferErrorInternal, repr(broken)))

    def _outcome(self, work: CommandBufferState, answer: int) -> CommandOutcome:
        start = end = self._begin
        if self._batch is not None and self._prepared is not None:
            try:
                self._prepared.check(answer)
            except KernelFault as fault:
                text = fault_text(fault, self._batch.dispatches[fault.launch], work.device.options)
                failure = failed(work, Stopped(fault_code(fault), text, self._places[fault.launch]))
                return CommandOutcome(self._begin, time.monotonic(), failure)
            times = self._prepared.times
            self._batch.ran(times)
            start, end = times[0] / 1e9, times[-1] / 1e9
        for signal in self._signals:
            signal.event.signal(signal.value)
        return CommandOutcome(start, end)


def direct_run(work: CommandBufferState) -> DirectRun | None:
    """The commands as one short call; None where they take more than that, may take long, or somebody is to be told."""
    options = work.device.options
    if work.scheduled_handlers or work.completed_handlers or work.captures:
        return None
    if options.checked or options.schedule != "ordered":
        return None
    dispatches: list[EncodedDispatch] = []
    places: list[int] = []
    signals: list[Signal] = []
    expected_ns = 0.0
    for place, command in enumerate(work.commands):
        if isinstance(command, Signal):
            signals.append(command)
            continue
        if not isinstance(command, Pass) or signals or command.attachments:
            return None
        for item in (item for epoch in command.epochs for item in epoch):
            if not isinstance(item, EncodedDispatch) or (taken := _expected_ns(item, work.retained)) is None:
                return None
            expected_ns += taken
            dispatches.append(item)
            places.append(place)
    if expected_ns > SHORT_NS or len(dispatches) > MOST_TIMED:
        return None
    return DirectRun(work, dispatches, places, signals)


def _expected_ns(dispatch: EncodedDispatch, retained: bool) -> float | None:
    """How long it took the last time, by the thread; None where that is not known, or it cannot simply be run."""
    pipeline, shape = dispatch.pipeline, dispatch.shape
    pace = pipeline.ns_per_thread.get(shape)
    if pace is None or pipeline.code.has_loops or dispatch.indirect is not None or not pipeline.is_settled():
        return None
    if not retained and not all(each is None or each.live for each in dispatch.allocations):
        return None
    return pace * dispatch.threads
