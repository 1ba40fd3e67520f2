"""The command buffers of one queue, from creation to completion, so that no error is lost."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from operator import attrgetter
from typing import Any
from weakref import ref

from .. import forks
from ..errors import (
    AFTER_FORK,
    BackendError,
    CommandBufferError,
    EncoderStateError,
    ForkedProcessError,
    InvalidArgument,
    WaitTimeout,
)
from ..forks import Lock
from ..memory.allocation import Allocation
from ..memory.recycler import Recycler
from ..memory.residency import Residency
from ..metal import Backend, Capabilities, ns_error
from ..profiling import kernel_profile
from ..profiling.kernel_profile import MEASURED, SIMULATED, CommandBufferEntry
from .ticket import DISCARDED, DONE, OPEN, SUBMITTED, Ticket
from .timing import SampleBuffers

__all__ = ["SLOTS", "Submissions"]

SLOTS = 64
"""The maximum number of uncompleted command buffers of a Metal queue."""

_FIRST_SLICE, _LONGEST_SLICE = 1, 50  # milliseconds between checks for Ctrl-C and errors
_numbers = itertools.count(1)


class Submissions:
    """Creates command buffers, submits them, and retires each one when it has completed."""

    def __init__(
        self, backend: Backend, mtl: Any, queue: Any, able: Capabilities, residency: Residency, recycler: Recycler
    ) -> None:
        self._pid, self._forks = os.getpid(), forks.count
        self._backend = backend
        self._mtl = mtl
        self._mtl_queue = queue
        self._residency = residency
        self._recycler = recycler
        self._completed = backend.Metal.MTLCommandBufferStatusCompleted
        self._committed = backend.Metal.MTLCommandBufferStatusCommitted
        self._event = mtl.newSharedEvent()
        self._can_wait = able.shared_event_wait
        self._lock = Lock()
        self._value = 0
        self._open: set[ref[Ticket]] = set()
        self._in_flight: deque[Ticket] = deque()
        self._unseen: list[Ticket] = []
        residency.writers = ref(self)
        self.samples = SampleBuffers(backend, mtl, able)
        self.provenance = SIMULATED if backend.timing == "simulated" else MEASURED
        kernel_profile.add_source(self)

    def __repr__(self) -> str:
        return f"<Submissions: {len(self._open)} open, {len(self._in_flight)} in flight>"

    @contextmanager
    def through(self, stand_in: Callable[[Any], Any]) -> Iterator[None]:
        """Replaces the queue inside the block with what `stand_in` returns for it; used to count messages."""
        queue = self._mtl_queue
        self._mtl_queue = stand_in(queue)
        try:
            yield
        finally:
            self._mtl_queue = queue

    def begin(self, *, unretained: bool) -> Ticket:
        """Opens a new command buffer."""
        ticket, opened, queue = Ticket(self), self._open, self._mtl_queue
        # The weak reference and its entry are created together, and the entry is removed with the ticket.
        opened.update(map(ref, (ticket,), (opened.discard,)))
        try:
            if len(opened) + len(self._in_flight) > SLOTS:
                self._make_room(ticket)
            with self._backend.autorelease_pool():
                mtl = queue.commandBufferWithUnretainedReferences() if unretained else queue.commandBuffer()
            if mtl is None:
                raise BackendError("the device could not create a command buffer")
            ticket.mtl = mtl
        except BaseException:
            self.abandon(ticket)
            raise
        return ticket

    def abandon(self, ticket: Ticket) -> None:
        """Drops a command buffer that will not be submitted."""
        with self._lock:
            if ticket.state == OPEN:
                self._open.discard(ref(ticket))
                ticket.discard()

    def submit(self, ticket: Ticket) -> None:
        """Submits a command buffer; those of a queue run in order of submission."""
        if self._in_flight:
            self.collect()
        with self._lock, self._backend.autorelease_pool():
            if self._residency.is_staged:
                self._residency.flush()
            mtl, ticket.sequence = ticket.mtl, next(_numbers)
            ticket.value = value = self._value = self._value + 1
            mtl.encodeSignalEvent_value_(self._event, value)
            # A finaliser or signal handler in here may submit, and wait for all that is in flight.
            try:
                mtl.commit()
                self._register(ticket)
            except BaseException:
                if mtl.status() >= self._committed:
                    self._register(ticket)
                else:
                    self._open.discard(ref(ticket))
                    ticket.discard()
                raise

    def _register(self, ticket: Ticket) -> None:
        """Notes that it was committed; may run twice after an interrupt."""
        if ticket.state == OPEN:
            ticket.state = SUBMITTED
        if ticket not in self._in_flight:
            self._in_flight.append(ticket)
        self._open.discard(ref(ticket))

    def poll(self, ticket: Ticket) -> None:
        """Retires a submitted command buffer if it has completed."""
        mtl = ticket.mtl
        if mtl is not None and mtl.status() >= self._completed:
            with suppress(EncoderStateError):  # in a finaliser, on the thread that is about to complete it
                self._settle(ticket)

    def collect(self) -> None:
        """Retires every completed command buffer; they complete in order, so the first pending one ends the search."""
        for first in list(self._in_flight):
            self.poll(first)
            if not first.is_closed:
                break
            with self._lock:
                self._retire(first)

    def wait(self, ticket: Ticket, timeout: float | None = None) -> None:
        """Waits until `ticket` and all before it have completed; raises its error, or another unreported one."""
        if ticket.state == OPEN or ticket.state == DISCARDED:
            raise EncoderStateError(f"{ticket!r} was not committed, so waiting for it would never end")
        if timeout is not None and not isinstance(timeout, (int, float)):
            raise InvalidArgument(f"timeout is {timeout!r}, expected seconds or None")
        deadline = None if timeout is None else time.monotonic() + timeout
        if len(self._in_flight) > 1 and ticket.state != DONE:
            with self._lock:
                others = tuple(self._in_flight)
            for each in others:
                if each.value < ticket.value:
                    self._await(each, deadline, timeout)
        self._await(ticket, deadline, timeout)
        if self._in_flight:
            self.collect()
        if self._unseen or ticket.failed:
            self._raise(ticket)

    def wait_for_stop(self, ticket: Ticket, event: Any, value: int) -> None:
        """Waits until the work has signalled `value`; raises if the work failed before."""
        while event.signaledValue() < value:
            if self._can_wait:
                event.waitUntilSignaledValue_timeoutMS_(value, _LONGEST_SLICE)
            else:
                time.sleep(_FIRST_SLICE / 1000)
            if event.signaledValue() < value and ticket.done():
                self.wait(ticket)

    def wait_for(self, allocation: Allocation) -> None:
        """Waits until no command buffer of this queue uses the memory."""
        for each in _submitted(allocation.in_flight()):
            self._await(each, None, None)

    def writer(self, allocation: Allocation, start: int, end: int) -> Ticket | None:
        """The last command buffer in flight that writes any of these bytes (addresses) of an allocation."""
        with self._lock:
            using = tuple(self._in_flight) if allocation.memory.aliases else allocation.in_flight()
        span = allocation.memory, start, end
        writing = [each for each in _submitted(using) if not each.done() and each.writes(span)]
        return max(writing, key=attrgetter("value"), default=None)

    def wait_all(self) -> None:
        """Waits until everything that was submitted has completed; raises unreported errors."""
        with self._lock:
            in_flight = list(self._in_flight)
        for each in in_flight:
            self._await(each, None, None)
        self._raise(None)

    def in_orders(self, count: int) -> AbstractContextManager[Any]:
        """Repeats each pass of the block in this many orders, where the device can; see `MlxDevice.schedules`."""
        repeated = self._backend.in_orders
        return nullcontext() if repeated is None else repeated(self._mtl, count)

    def _make_room(self, ticket: Ticket) -> None:
        """Waits for a free command buffer, as Metal itself would, but interruptibly; raises if no wait could help."""
        with self._lock:
            self._open.discard(ref(ticket))
            if len(self._open) >= SLOTS:
                raise EncoderStateError(
                    f"{len(self._open)} command buffers of this device are neither committed nor dropped, "
                    "and Metal has no more; commit or drop some encoders first"
                )
            self._open.update(map(ref, (ticket,), (self._open.discard,)))
        while True:
            with self._lock:
                oldest = (
                    self._in_flight[0] if len(self._open) + len(self._in_flight) > SLOTS and self._in_flight else None
                )
            if oldest is None:
                return
            self._await(oldest, None, None)

    def _await(self, ticket: Ticket, deadline: float | None, timeout: float | None) -> None:
        step = _FIRST_SLICE
        if forks.count != self._forks:
            raise ForkedProcessError(f"{ticket!r} belongs to process {self._pid} from before a fork; {AFTER_FORK}")
        while ticket.state < DONE:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0 and not ticket.done():
                    raise WaitTimeout(
                        f"{ticket.describe()} is not done after {timeout} s; it continues and can be waited for again"
                    )
                step = max(1, int(min(step, left * 1000 + 1)))
            if self._can_wait and self._event.waitUntilSignaledValue_timeoutMS_(ticket.value, step):
                self._settle(ticket)
                return
            # A failed command buffer does not signal, so its status is checked after each time slice.
            elif not ticket.done() and not self._can_wait:
                time.sleep(step / 1000)
            step = min(step * 10, _LONGEST_SLICE)

    def _raise(self, ticket: Ticket | None) -> None:
        with self._lock:
            unseen, self._unseen = self._unseen, []
        error = ticket.error if ticket is not None else None
        others = [each.error for each in dict.fromkeys(unseen) if each is not ticket and each.error is not None]
        if error is None and not others:
            return
        raised = error or others.pop(0)
        for other in others:
            raised.add_note(f"also: {other}")
        raise raised.with_traceback(None)

    def _settle(self, ticket: Ticket) -> None:
        """Records the outcome; the event is signalled slightly before the status changes, so this waits for the
        status. Not under the lock: a finaliser may want it, on the thread that completes the work."""
        mtl, finding = ticket.mtl, None
        try:
            if mtl is not None:
                mtl.waitUntilCompleted()
        except EncoderStateError:
            raise
        except Exception as raised:  # what a checking device has to say, besides the error
            finding = raised
        with self._lock, self._backend.autorelease_pool():
            if ticket.state >= DONE:
                return
            failed = mtl.status() != self._completed or finding is not None
            error = self._failure(ticket, finding) if failed else None
            times = float(mtl.GPUStartTime()), float(mtl.GPUEndTime())
            if ticket.timed or ticket.samples is not None or ticket.notes is not None:
                self._record(ticket, times, failed)
            if failed and ticket.fence is not None:
                # Metal does not signal events for failed work, so waiters would wait for ever.
                ticket.fence[0].setSignaledValue_(ticket.fence[1])
            if error is not None:
                self._unseen.append(ticket)
            ticket.close(error, times)
            if ticket.results:
                self._recycler.give_back(ticket.results)
            self._retire(ticket)

    def _retire(self, ticket: Ticket) -> None:
        """Removes a ticket from those in flight; may run twice after an interrupt."""
        if ticket in self._in_flight:
            self._in_flight.remove(ticket)

    def _failure(self, ticket: Ticket, finding: Exception | None) -> Exception:
        reported = ticket.mtl.error()
        code = int(reported.code()) if reported is not None else None
        message = str(finding) if finding else ns_error.reason(reported)
        # A checking device determines the exception that its finding is raised as.
        raised_as = getattr(finding, "raised_as", None)
        error = ticket.failure(code, message, raised_as or CommandBufferError)
        # Where the device raised a finding says nothing to anybody.
        error.__cause__ = finding.with_traceback(None) if finding is not None and raised_as else finding
        return error

    def _record(self, ticket: Ticket, times: tuple[float, float], failed: bool) -> None:
        """Adds the times to the profile; failed work has none."""
        label = ticket.label or "(no label)"
        how = None
        if ticket.samples is not None:
            how = ticket.samples.finish(label, ticket, self.provenance, failed)
        if ticket.notes is not None:
            ticket.notes.settle(times, self.provenance, how, failed)
        if ticket.timed and not failed:
            ns = max(0, int((times[1] - times[0]) * 1e9))
            kernel_profile.record_command_buffer(
                CommandBufferEntry(ticket.sequence, label, ns, ticket.dispatch_count(), self.provenance, how)
            )


def _submitted(users: Iterable[object]) -> list[Ticket]:
    """The submitted command buffers among the users of an allocation, including those of plans."""
    return [each for each in users if isinstance(each, Ticket) and each.is_submitted]
