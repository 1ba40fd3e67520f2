"""The command encoder: one command buffer with one persistent compute pass."""

from __future__ import annotations

import atexit
import warnings
from threading import get_ident
from types import TracebackType
from typing import Any, Protocol, Self
from weakref import ref

from ..compat import EncoderSpellings
from ..errors import EncoderStateError, InvalidArgument
from ..hazards.tracker import MemRanges
from ..memory import transfers
from ..profiling import observer
from ..profiling.regions import current_region
from .compute_pass import ComputePass
from .context import DeviceContext
from .encoding import DispatchEncoder
from .submissions import Submissions
from .ticket import OPEN, Ticket

__all__ = ["CommandEncoder", "give_up"]


class CommandEncoder(DispatchEncoder, EncoderSpellings):
    """Encodes dispatches into one command buffer; `device.command_encoder()` creates one.

    An encoder belongs to the thread that created it. As a context manager it commits and waits at the end of the block,
    or discards the work if the block raises. Dropping an encoder with uncommitted work emits a `ResourceWarning`.

    >>> with device.command_encoder() as enc:
    ...     enc.dispatch(axpy, x, y, 2.0, threads=4)
    >>> y.numpy()
    array([1., 3., 5., 7.], dtype=float32)
    """

    def __init__(
        self, device: DeviceContext, *, auto_barrier: bool | None = None, unretained_refs: bool | None = None
    ) -> None:
        super().__init__(device, auto_barrier)
        self._unretained = self._settings.unretained_refs if unretained_refs is None else unretained_refs
        self._queue = device.submissions
        self._begin()

    def _begin(self) -> None:
        """Opens a new command buffer and resets all state that belongs to one."""
        self.device.require_open()
        ticket = self._queue.begin(unretained=self._unretained)
        try:
            ticket.timed = self._settings.profile_cb
            if self._settings.profile_dispatch or (observer.watchers and observer.wants_dispatches()):
                ticket.samples = self._queue.samples.samples()
            self._pass = ComputePass(self.device, ticket)
            self._is_plain = self._auto_barrier and not self._profile_barriers and self._pass.is_plain
            guard = _Guard(self, _dropped)
            guard.queue, guard.ticket, guard.opened, guard.tracker = self._queue, ticket, self._pass, self.mem_ranges
            _unfinished[ticket] = guard
        except BaseException:
            self._queue.abandon(ticket)
            raise
        ticket.log, ticket.barriers = self.mem_ranges.log, self.mem_ranges.barriers
        if observer.watchers:
            ticket.notes = observer.open_notes(self.device, ticket, current_region())
        self._tickets = [*[each for each in self._tickets if each.barriers], ticket] if self._tickets else [ticket]
        self.ticket = ticket
        self._recording = True
        self._tally.cmd_bufs += 1

    # Committing

    def commit(self, label: str | None = None) -> Ticket:
        """Submits the work and returns immediately; the ticket tracks its completion."""
        self._require("commit")
        self._submit(label)
        return self.ticket

    def commit_and_wait(self, label: str | None = None) -> None:
        """Submits the work and waits for it; raises its error if it failed."""
        self._require("commit_and_wait")
        self._tally.syncs += 1
        self._submit(label)
        self._queue.wait(self.ticket)

    def wait_until_completed(self, timeout: float | None = None) -> None:
        """Waits for committed work, at most `timeout` seconds."""
        if not self.ticket.is_submitted:
            raise self._refusal("wait_until_completed")
        self.ticket.wait(timeout)

    @property
    def is_recording(self) -> bool:
        """Whether it still accepts dispatches: neither committed nor discarded."""
        return self._recording

    def discard(self) -> None:
        """Ends the pass and drops the work; does nothing after a commit or an earlier discard."""
        if self._recording:
            self._require("discard")
            self._close()
            give_up(self._queue, self.ticket, self._pass)
            _unfinished.pop(self.ticket, None)

    def fence_and_commit(self, event: Any, value: int, label: str | None = None) -> Ticket:
        """For sessions: submits the work, which signals `value` on an MTLEvent when it completes."""
        self._require("fence_and_commit")
        if label is not None:
            self._apply_label(label)
        self.device.require_open()
        self._pass.end()
        self.ticket.mtl.encodeSignalEvent_value_(event, value)
        self.ticket.fence = (event, value)
        self._submit()
        return self.ticket

    def next_command_buffer(self, event: Any = None, value: int = 0) -> None:
        """For sessions: continues in a new command buffer, which waits until `event` has reached `value`."""
        if self._recording or get_ident() != self._thread:
            raise EncoderStateError(
                "the next command buffer can only be started after a commit, in the encoder's own thread"
            )
        self._begin()
        if event is not None:
            self.ticket.keep.add(event)
            self.ticket.mtl.encodeWaitForEvent_value_(event, value)

    def stop_for_host(self, event: Any, value: int) -> None:
        """Makes the GPU signal `value` on a shared event and pause until the CPU sets `value + 1`."""
        self._require("stop_for_host")
        self._pass.end()
        self.owner, self.sender, self._unexpanded = 0, None, None
        self.mem_ranges.reset()
        self.ticket.keep.add(event)
        self.ticket.mtl.encodeSignalEvent_value_(event, value)
        self.ticket.mtl.encodeWaitForEvent_value_(event, value + 1)

    def _apply_label(self, label: str) -> None:
        if not isinstance(label, str) or not label:
            raise InvalidArgument(f"a label is a non-empty str, not {label!r}")
        self.ticket.label = label
        with self.device.backend.autorelease_pool():
            self.ticket.mtl.setLabel_(label)
            self._pass.set_label(label)

    def _submit(self, label: str | None = None) -> None:
        if label is not None:
            self._apply_label(label)
        self.device.require_open()
        if transfers.under_way:
            transfers.wait_for(self.ticket.keep)
        self._pass.end()
        self._close()
        notes = self.ticket.notes
        if notes is not None:
            notes.end(self.ticket.label)
        self._queue.submit(self.ticket)
        _unfinished.pop(self.ticket, None)
        if notes is not None:
            notes.commit(self.ticket.sequence)

    def _close(self) -> None:
        """Stops accepting dispatches."""
        self._recording, self.owner, self.sender, self._unexpanded = False, 0, None, None
        self.mem_ranges.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.discard()
        elif self._recording:
            self.commit_and_wait()

    def __repr__(self) -> str:
        state = "recording" if self._recording else "committed" if self.ticket.is_submitted else "discarded"
        return f"<CommandEncoder, {state}, {self.ticket.dispatch_count()} dispatches, {len(self.barriers)} barriers>"


class _Guard(ref[CommandEncoder]):
    """Tells when an encoder is dropped that was neither committed nor discarded.

    A `__del__` would run for every encoder, and lose a Ctrl-C that arrives in it.
    """

    __slots__ = ("opened", "queue", "ticket", "tracker")
    queue: Submissions
    ticket: Ticket
    opened: ComputePass
    tracker: MemRanges


_unfinished: dict[Ticket, _Guard] = {}


def _dropped(guard: Any) -> None:
    """What happens to an encoder that was neither committed nor discarded."""
    queue, ticket, opened = guard.queue, guard.ticket, guard.opened
    if _unfinished.pop(ticket, None) is None or ticket.state != OPEN:
        return
    try:
        if ticket.log:
            warnings.warn(
                f"{ticket.describe()} was encoded and never committed, so it did not run; "
                "use `with device.command_encoder() as enc:`, enc.commit(), or enc.discard()",
                ResourceWarning,
                stacklevel=2,
            )
    finally:
        try:
            give_up(queue, ticket, opened)
        finally:
            guard.tracker.close()  # the counters keep it for a while, and it keeps buffers


class _Endable(Protocol):
    def end(self) -> None: ...


def give_up(queue: Submissions, ticket: Ticket, opened: _Endable) -> None:
    """Ends the pass of an abandoned command buffer, because Metal aborts the process if an open pass is deallocated."""
    try:
        opened.end()
    except BaseException:  # Ctrl-C in a finaliser is lost, and the pass must not be
        opened.end()
        raise
    finally:
        queue.abandon(ticket)


def _drop_all() -> None:
    for guard in list(_unfinished.values()):
        _dropped(guard)


atexit.register(_drop_all)
