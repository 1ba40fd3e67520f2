"""The state of a queue: command buffers in order, its capacity, and the thread that runs them."""

from __future__ import annotations

import itertools
import os
import threading
import time
from _thread import get_ident, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import starmap
from operator import call
from queue import SimpleQueue
from sys import is_finalizing
from typing import Any
from weakref import ref

from .. import constants as c
from ..misuse import EndlessWait, QueueFull
from ..process import is_forked, refuse_after_fork, report
from .atomic import drop, first, one_step
from .command_buffer import CommandBufferState, CommandOutcome, Failure
from .commands import Signal, WaitFor
from .device import DeviceState
from .direct import DirectRun, direct_run, must_wait
from .events import TICK, EventState, Waiters, never, sleep
from .execute import execute
from .residency import ResidencyState, Resident, joined

_EXIT_SECONDS = 1.0
ENDING = (
    "the process is ending and runs no more command buffers; functions of atexit may use them if they are registered "
    "after the import of this package"
)
_FOREVER = 1e9
WORTH_WAKING_NS = 20_000  # of work, for each worker of the runtime
_BUSY_SECONDS = 0.01  # how often the thread looks again while another one runs the first command buffer
_POLL_SECONDS = 0.001  # the same while callers run what they wait for
_POLLING_SECONDS = 0.1  # for how long after the last of those
_RAN = 3  # entries of a command buffer's progress when its direct run has returned
_numbers = itertools.count(1)
_queues: set[ref[QueueState]] = set()


class _Enqueued(ref[Any]):
    """What the order has for a command buffer that is not committed; false, since it is not to be run."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False


class QueueState:
    """A queue; each state change is one step that exceptions cannot interrupt, and the next thread continues from it.

    A command buffer stays first in `order` until it is finished, and only the first one runs. Usually the queue's
    thread runs it; a short one is run by a thread that waits for it, if that comes first. Meanwhile commits do not wake
    the queue's thread, which polls, because there may be work that nobody waits for.
    """

    def __init__(self, owner: object, device: DeviceState, slots: int) -> None:
        self.device = device
        self.slots = slots
        self.label: str | None = None
        self.number = next(_numbers)
        self.name = f"soft-metal-queue-{self.number}"
        self.serials = itertools.count(1)
        self.residency: dict[ResidencyState, None] = {}
        self.order: dict[CommandBufferState, object] = {}  # with its owner once it is committed; else _Enqueued
        self.taken: set[ref[CommandBufferState]] = set()
        self.closed = False
        self._blocked = False  # waiting for an event, so nobody can say when it goes on
        self._moved = time.monotonic()
        self._room = Waiters()
        self._waiters = Waiters()  # for progress of any command buffer
        self._started = False
        self._threads: set[int] = set()  # their numbers; an exception while one is started may give it a twin
        self._inbox: SimpleQueue[object] = SimpleQueue()
        self._sleeping: list[Callable[[], None]] = []  # how to wake the thread, while it waits for work
        self._wake = partial(self._inbox.put, None)
        self._polling_until = 0.0
        self._owner = ref(owner, self._inbox.put)  # which wakes the thread, so that it ends
        _queues.add(ref(self, _queues.discard))

    def take_slot(self, work: CommandBufferState) -> None:
        """Waits for a free slot; raises when nothing has moved for too long, which would be a deadlock on Metal."""
        begin, taken = 0.0, self.taken
        while True:
            # The reference and its entry come into being together, and the entry goes with the command buffer.
            taken.update(map(ref, (work,), (taken.discard,)))
            if len(taken) <= self.slots:
                return
            patience = self.device.options.queue_patience_seconds
            self.taken.discard(ref(work))
            begin = begin or time.monotonic()
            self._forget_dropped()
            head = first(self.order)
            stuck = head is None or bool(head.claim) or self._blocked or self.is_current_thread()
            if stuck and time.monotonic() - max(begin, self._moved) > patience:
                raise QueueFull(self._diagnosis())
            self._room.wait(lambda: len(self.taken) < self.slots, min(TICK, patience), never)

    def enqueue(self, work: CommandBufferState, owner: object) -> None:
        """Reserves the place in the order, once, until it is committed or dropped."""
        if work not in self.order:
            self.order.setdefault(work, _Enqueued(owner, self._inbox.put))

    def commit(self, work: CommandBufferState, owner: object) -> None:
        """Enqueues the command buffer unless it is, and lets it run; it keeps its owner alive until then."""
        if not self._started and not self.closed:
            try:
                start_new_thread(self._run, ())  # of threading.Thread an exception could leave locks behind
            except RuntimeError as refused:
                self._refuse(work, f"{self.name} has no thread to run it: {refused}")
                return
            self._started = True
        if self.device.timeline is not None:
            called = f"{work.name} on queue {self.label or self.name!r}"
            work.history = self.device.timeline.commit(self.number, called)
        if work.shared_ns >= WORTH_WAKING_NS and not self.order:
            self.device.rouse(int(work.shared_ns / WORTH_WAKING_NS))
        drop(starmap(call, ((self.order.__setitem__, work, owner), (drop, map(call, self._sleeping)))))

    def run_next(self) -> bool:
        """Runs the first command buffer on this thread if it is short and nobody runs it; whether it did."""
        work = self._head()
        if work is None or self.closed:
            return False
        if len(work.progress) < _RAN:
            run = direct_run(work, self._standing) if work.claim else None
            if run is None:
                return False
            work.kernel_end = run.begin
            work.kernel_start = work.kernel_start or run.begin
            try:
                work.progress.extend(starmap(call, ((work.claim.remove, run.first), (tuple, (run,)), run.call)))
            except ValueError:  # another thread was faster
                return False
        self._finish_direct(work)
        self._polling_until = self._moved + _POLLING_SECONDS
        return True

    def wait(self, work: CommandBufferState, reached: Callable[[], bool], stopped: Callable[[], bool]) -> bool:
        """Sleeps until the command buffer has come so far; False where `stopped` came first."""
        self.nudge()
        return self._waiters.wait(reached, _FOREVER, stopped)

    def nudge(self) -> None:
        """Has the thread look again, if there is something to run."""
        work = self._head()
        if work is not None and work.claim:
            self._wake()

    def close(self) -> None:
        self.closed = True
        self._wake()

    def has_stopped(self) -> bool:
        """Whether what waits in the queue will never run."""
        head = first(self.order)
        return self.closed and (head is None or bool(head.claim))

    def waits_in_vain(self) -> bool:
        """Whether this thread would wait for ever. Daemon threads end with the process; others would hold it up."""
        # Python stops the queue's thread before finalisers run on the last one, also in the middle of something.
        is_left = is_forked() or is_finalizing()
        return is_left or (self.has_stopped() and not threading.current_thread().daemon)

    def is_current_thread(self) -> bool:
        """Whether this thread is the queue's, or is in the middle of a direct run, where finalisers may come."""
        if get_ident() in self._threads:
            return True
        work = first(self.order)
        begun = () if work is None else tuple(work.progress)[1:_RAN]
        return len(begun) == 1 and begun[0][0].thread == get_ident()

    def refuse_endless(self, event: EventState, value: int) -> None:
        """Raises if the event is to be signalled by what this thread keeps waiting, or what will never run."""
        refuse_after_fork()
        if self.is_current_thread():
            why = (
                "a handler, or a finaliser that the garbage collector ran on the queue's own thread, waits for work "
                "that this thread is in the middle of, or runs next; submit there, and wait elsewhere"
            )
        elif self.waits_in_vain():
            why = ENDING
        else:
            return
        commands = [command for work in list(self.order) for command in list(work.commands)]
        if any(isinstance(each, Signal) and each.event is event and each.value >= value for each in commands):
            raise EndlessWait(why)

    def join(self, end: float) -> None:
        """Waits until the thread has ended, at most until `end` on the monotonic clock."""
        while self._threads - {get_ident()} and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)

    def _forget_dropped(self) -> None:
        """Takes those out of the order that were dropped and will not be committed."""
        for work in list(self.order):
            place = self.order.get(work)
            if isinstance(place, _Enqueued) and place() is None:
                self.order.pop(work, None)

    def _head(self) -> CommandBufferState | None:
        """The one that runs or is to run now."""
        work = first(self.order)
        if work is None or self.order.get(work):
            return work
        self._forget_dropped()
        work = first(self.order)
        return work if work is not None and self.order.get(work) else None

    def _run(self) -> None:
        self._threads.add(get_ident())
        while not self.closed and self._owner() is not None:
            try:
                if not self._advance():
                    self._sleep()
            except BaseException as error:  # the next command buffers must not wait for ever
                report(error)
        self._threads.discard(get_ident())

    def _advance(self) -> bool:
        """Runs the next command buffer; a call of its own, so that nothing keeps a finished one alive."""
        work = self._head()
        if work is None:
            return False
        if len(work.progress) == _RAN:  # an exception stopped the thread that ran it
            self._finish_direct(work)
            return True
        if must_wait(work) and time.monotonic() < self._polling_until:
            return False  # the thread that ran the commands before is likely to go on
        try:
            return self._claim_and_perform(work)
        except BaseException as error:
            if not work.claim and not work.progress:  # it was this thread that claimed it
                if work.outcome is None:
                    self._fail(work, error)
                else:
                    self._retire(work)
            raise

    def _claim_and_perform(self, work: CommandBufferState) -> bool:
        try:
            work.claim.pop()
        except IndexError:
            return False
        self._polling_until = 0.0
        self._perform(work)
        return True

    def _sleep(self) -> None:
        if self._head() is not None:
            sleep(self._inbox, _BUSY_SECONDS)
        elif time.monotonic() < self._polling_until:
            sleep(self._inbox, _POLL_SECONDS)
        else:
            self._sleeping.append(self._wake)
            if self._head() is None and not self.closed:
                sleep(self._inbox, None)
            self._sleeping.clear()

    def _perform(self, work: CommandBufferState) -> None:
        """Everything that happens after commit. Whatever happens, nobody waits for ever."""
        try:
            owner = self.order.get(work)
            work.kernel_start = time.monotonic()
            work.started = True
            work.call(work.scheduled_handlers, owner)
            work.scheduled = True
            self._waiters.wake()
            work.kernel_end = time.monotonic()
            work.outcome = execute(work, self._standing(work), self._wait_for, lambda: self.closed)
            work.call([capture.completed for capture in work.captures], self, work)
            work.release()
            if work.completed_handlers:
                work.seen()
            work.call(work.completed_handlers, owner)
        except BaseException as error:
            self._fail(work, error)
        else:
            self._retire(work)

    def _fail(self, work: CommandBufferState, error: BaseException) -> None:
        """Something that nobody foresaw ends the command buffer."""
        now = time.monotonic()
        work.outcome = CommandOutcome(now, now, Failure(c.MTLCommandBufferErrorInternal, repr(error)))
        work.blame(error)
        self._retire(work)

    def _refuse(self, work: CommandBufferState, reason: str) -> None:
        now = time.monotonic()
        work.outcome = CommandOutcome(now, now, Failure(c.MTLCommandBufferErrorInternal, reason))
        work.release()
        self._retire(work)

    def _standing(self, work: CommandBufferState) -> Resident:
        return joined(*[residency.resident for residency in (*self.residency, *work.residency)])

    def _wait_for(self, command: WaitFor) -> bool:
        self._blocked = True
        try:
            return command.event.wait(command.value, _FOREVER, lambda: self.closed)
        finally:
            self._blocked = False

    def _finish_direct(self, work: CommandBufferState) -> None:
        """What follows a direct run; each step may be taken again, by another thread too."""
        progress = tuple(work.progress)
        if len(progress) < _RAN:  # another thread was faster
            return
        _, told, answer = progress
        outcome = told[0].outcome(work, answer)
        if outcome.failure is None and told[0].end < len(work.commands):
            self._moved = time.monotonic()
            self._hand_back(work, told, outcome.start)
            return
        if work.outcome is None:
            work.outcome = outcome
        work.release()
        self._retire(work)

    def _hand_back(self, work: CommandBufferState, told: tuple[DirectRun], start: float) -> None:
        """Part of the commands is done; whoever comes next runs the others. The first call is for one thread alone."""
        fresh = [start] * (told[0].end - len(work.done))
        with suppress(ValueError):
            one_step(
                (work.progress.remove, told),
                (work.done.extend, fresh),
                (work.progress.clear,),
                (work.claim.append, told[0].end),
            )

    def _retire(self, work: CommandBufferState) -> None:
        owner = self.order.get(work)  # lives until everything is done
        if work.scheduled_handlers or work.completed_handlers:
            work.scheduled_handlers = work.completed_handlers = ()
        work.started = work.scheduled = work.finished = True
        self._moved = time.monotonic()
        drop(starmap(call, ((self.order.pop, work, None), (self.taken.discard, ref(work)))))
        if self._waiters.calls:
            self._waiters.wake()
        if self._room.calls:
            self._room.wake()
        if self.order:
            self.nudge()
        del owner

    def _diagnosis(self) -> str:
        entries = list(self.order.items())
        running = bool(entries) and not entries[0][0].claim
        committed = sum(bool(owner) for _, owner in entries) - running
        state = "waits for an event that nobody signals" if self._blocked else "is idle"
        if self.is_current_thread():
            state = "is in the handler that asks for one more"
        return (
            f"all {self.slots} command buffers of {self.name} are taken and its worker {state}: "
            f"{len(self.taken) - len(entries)} not enqueued, {len(entries) - committed - running} enqueued only, "
            f"{committed} committed behind them. Commit or drop some; on Metal this call would wait for ever"
        )


def finish_all() -> None:
    """At exit, lets running work end for a moment; what is left dies with the process.

    In a forked child the threads are gone.
    """
    if is_forked():
        return
    end = time.monotonic() + _EXIT_SECONDS
    queues = [queue for each in list(_queues) if (queue := each()) is not None]
    for queue in queues:
        queue.close()
    for queue in queues:
        queue.join(end)


def _leave_all() -> None:
    """In a forked child: what was committed runs in the parent."""
    for each in list(_queues):
        if (queue := each()) is not None:
            queue.closed = True


os.register_at_fork(after_in_child=_leave_all)
