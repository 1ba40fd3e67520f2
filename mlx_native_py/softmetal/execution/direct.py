"""Direct runs: short command buffers executed by the waiting thread, as one call of the runtime."""

from __future__ import annotations

import threading
import time
from _thread import get_ident
from collections.abc import Callable
from typing import Any

from .. import constants as c
from ..engines.runtime import KernelFault
from ..misuse import MetalMisuse
from ..process import report
from .command_buffer import CommandBufferState, CommandOutcome, Failure
from .commands import Signal, WaitFor
from .execute import Stopped, failed, fault_code
from .fault_text import fault_text
from .indirect import KeptBatch, Replay
from .launches import MOST_TIMED, LaunchBatch
from .passes import EncodedDispatch, Pass, PassItem
from .residency import Resident, joined

# The main thread hears Ctrl-C only after the call. So nothing longer runs this way there, and no loop that may end late
# or never: one whose rounds depend on what buffers hold.
SHORT_NS = 10_000_000
SHORT_ELSEWHERE_NS = 20_000_000
BRIEF_NS = 250_000  # other Python threads wait as long for most functions written in C


class DirectRun:
    """The next commands up to an event wait: one batch of dispatches, then the signals."""

    __slots__ = ("_batch", "_places", "_prepared", "_signals", "begin", "call", "end", "first", "thread")

    def __init__(
        self,
        work: CommandBufferState,
        batch: LaunchBatch | None,
        brief: bool,
        places: list[int],
        signals: list[Signal],
        part: range,
    ) -> None:
        self.begin = time.monotonic()
        self.thread = get_ident()
        self._batch = batch
        self._places = places
        self._signals = signals
        self._prepared = None
        self.call: tuple[Any, ...] = (int,)
        """What is to be called, with its arguments; it answers 0 unless a kernel was stopped."""
        if batch is not None:
            self._prepared = work.device.prepare(batch.launches, len(batch.dispatches), brief=brief)
            self.call = self._prepared.call
        self.first, self.end = part.start, part.stop  # the commands that it consists of

    def outcome(self, work: CommandBufferState, answer: int) -> CommandOutcome:
        """What came of the call; may be asked for again."""
        start = end = self.begin
        try:
            if self._batch is not None and self._prepared is not None:
                self._prepared.check(answer)
                times = self._prepared.times
                self._batch.ran(times)
                start, end = times[0] / 1e9, times[-1] / 1e9
            for signal in self._signals:
                signal.event.signal(signal.value)
            return CommandOutcome(work.done[0] if work.done else start, end)
        except KernelFault as fault:
            failure = self._failure(work, fault)
        except Exception as broken:
            report(broken)
            failure = Failure(c.MTLCommandBufferErrorInternal, repr(broken))
        return CommandOutcome(start, time.monotonic(), failure)

    def _failure(self, work: CommandBufferState, fault: KernelFault) -> Failure:
        dispatches = () if self._batch is None else self._batch.dispatches
        text = fault_text(fault, dispatches[fault.launch], work.device.options)
        place = self._places[min(fault.launch, len(self._places) - 1)]
        return failed(work, Stopped(fault_code(fault), text, place))


def direct_run(work: CommandBufferState, standing: Callable[[CommandBufferState], Resident]) -> DirectRun | None:
    """The next commands as one short call; None where they take more than that, may take long, must wait, or somebody
    is to be told. `standing` tells what kernels may reach without its being bound."""
    device = work.device
    if work.scheduled_handlers or work.completed_handlers or work.captures or device.orders or not device.is_plain:
        return None
    items: list[PassItem] = []
    places: list[int] = []
    signals: list[Signal] = []
    first = end = waited = len(work.done)
    # Another thread may run the command buffer meanwhile, and clear the list; what is made here is then not claimed.
    for command in tuple(work.commands)[end:]:
        if type(command) is Pass and not signals and not command.attachments:
            for epoch in command.epochs:
                items += epoch
            places += [end] * (len(items) - len(places))
        elif type(command) is Signal:
            signals.append(command)
        elif type(command) is not WaitFor:
            return None
        elif end > waited:
            break
        elif command.event.value < command.value:
            return None
        else:
            waited += 1
        end += 1
    found: tuple[LaunchBatch | None, bool] | None
    if len(items) == 1 and type(replay := items[0]) is Replay:
        found = _replayed(work, replay, standing)
    else:
        found = _dispatches(work, items)
    return None if found is None else DirectRun(work, *found, places, signals, range(first, end))


def must_wait(work: CommandBufferState) -> bool:
    """Whether a direct run ended where the next command waits for a value that is not reached."""
    rest = work.commands[len(work.done) : len(work.done) + 1] if work.done else ()
    return any(isinstance(each, WaitFor) and each.event.value < each.value for each in rest)


def _replayed(
    work: CommandBufferState, replay: Replay, standing: Callable[[CommandBufferState], Resident]
) -> tuple[LaunchBatch, bool] | None:
    """A replay that is all there is, where it is known as one short batch; and whether it is brief."""
    try:
        batch = replay.kept(joined(standing(work), replay.resident))
    except MetalMisuse:  # becomes the error of the command buffer, where the queue's thread finds it
        return None
    taken_ns = None if batch is None else _short_time(batch)
    if batch is None or taken_ns is None:
        return None
    return batch, taken_ns <= BRIEF_NS and not batch.has_loops  # a loop may take longer than it did


def _short_time(batch: KeptBatch) -> int | None:
    """What the batch took last; None where that is not known, or not short."""
    is_main = threading.current_thread() is threading.main_thread()
    if batch.taken_ns is None or (is_main and batch.has_loops):
        return None
    return batch.taken_ns if batch.taken_ns <= (SHORT_NS if is_main else SHORT_ELSEWHERE_NS) else None


def _dispatches(work: CommandBufferState, items: list[PassItem]) -> tuple[LaunchBatch | None, bool] | None:
    """All dispatches as one batch, and whether it is brief; None where they are too many or may take long."""
    dispatches: list[EncodedDispatch] = []
    total_ns = 0.0
    for item in items:
        if type(item) is not EncodedDispatch or item.indirect is not None:
            return None
        taken, pipeline = item.expected_ns, item.pipeline
        if taken is None or not (work.retained or _is_live(item)):
            return None
        if item.shape not in pipeline.settled and not pipeline.is_settled(item.shape):
            return None
        total_ns += taken
        dispatches.append(item)
    if total_ns > SHORT_NS or len(dispatches) > MOST_TIMED:
        return None
    return LaunchBatch(dispatches) if dispatches else None, total_ns <= BRIEF_NS


def _is_live(dispatch: EncodedDispatch) -> bool:
    """Whether no memory of it was released."""
    return all(each is None or each.live for each in dispatch.allocations)
