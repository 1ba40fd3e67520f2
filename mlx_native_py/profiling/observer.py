"""Events that encoders and queues report to running profiles.

Nothing is reported per dispatch: the encoder's log has them, and is kept with its command buffer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import get_ident
from typing import Any, NamedTuple, Protocol
from weakref import ref

from ..forks import Lock
from .kernel_profile import DispatchEntry, Provenance

__all__ = [
    "CommandBufferNotes",
    "PlannedLaunch",
    "Watcher",
    "add_span",
    "enter_region",
    "open_notes",
    "start",
    "stop",
    "wants_dispatches",
    "watchers",
]


class Watcher(Protocol):
    """A running profile."""

    dispatches: bool
    """Whether it wants each dispatch timed."""

    def add(self, notes: CommandBufferNotes) -> None:
        """A command buffer was opened."""
        ...

    def add_span(self, track: str, name: str, start_ns: int, end_ns: int, args: dict[str, Any]) -> None:
        """Something else took time, such as a collective."""
        ...


class PlannedLaunch(NamedTuple):
    """A dispatch of a plan, without its buffers."""

    kernel: str
    kind: str
    reads: list[Any]
    writes: list[Any]
    region: tuple[str, ...]
    barrier: bool
    conflict: tuple[int, Any] | None
    """The dispatch of the plan that it waits for, and the hazard; None if there is none."""


class CommandBufferNotes:
    """Data of one command buffer from opening to completion; times are monotonic nanoseconds."""

    def __init__(self, device: Any, ticket: Any, region: tuple[str, ...]) -> None:
        self.device = device
        self.thread = get_ident()
        self.log: list[Any] = ticket.log
        self.kinds: dict[int, Any] = ticket.kinds
        self.barriers: list[tuple[int, int | None]] = ticket.barriers
        """For each barrier, the log index it precedes and the first that can have caused it."""
        self.regions: list[tuple[int, tuple[str, ...]]] = [(0, region)]
        """Log index and region path at each change of region."""
        self.plans: dict[int, Sequence[PlannedLaunch]] = {}
        """The dispatches of plans, by log index."""
        self.dispatches: list[DispatchEntry] = []
        """Times of single dispatches, if requested."""
        self.memory: list[tuple[int, int]] = []
        """Times, and the bytes that the device had allocated then."""
        self.label = ""
        self.sequence = 0
        self.opened = self.ended = self.committed = self.settled = 0
        self.gpu = (0, 0)
        self.provenance: Provenance | None = None
        self.dispatch_timing: Provenance | None = None
        self.failed = False
        self.opened = self._note_memory()

    def _note_memory(self) -> int:
        now = time.monotonic_ns()
        self.memory.append((now, int(self.device.mtl.currentAllocatedSize())))
        return now

    def end(self, label: str) -> None:
        """Encoding has ended; the command buffer is about to be committed."""
        self.label = label
        self.ended = self._note_memory()
        with _lock:
            _open.discard(ref(self))

    def commit(self, sequence: int) -> None:
        """The command buffer is in flight."""
        self.sequence = sequence
        self.committed = time.monotonic_ns()

    def settle(
        self, times: tuple[float, float], provenance: Provenance, timing: Provenance | None, failed: bool
    ) -> None:
        """The command buffer has completed."""
        self.gpu = int(times[0] * 1e9), int(times[1] * 1e9)
        self.provenance, self.dispatch_timing, self.failed = provenance, timing, failed
        self.settled = self._note_memory()


watchers: list[Watcher] = []
"""The running profiles, of all threads."""

_lock = Lock()
_open: set[ref[CommandBufferNotes]] = set()


def start(watcher: Watcher) -> None:
    """Reports command buffers opened from now on to `watcher`."""
    with _lock:
        watchers.append(watcher)


def stop(watcher: Watcher) -> None:
    """Ends that; command buffers already open are still reported."""
    with _lock:
        if watcher in watchers:
            watchers.remove(watcher)


def wants_dispatches() -> bool:
    """Whether a profile wants each dispatch timed."""
    return any(watcher.dispatches for watcher in watchers)


def open_notes(device: Any, ticket: Any, region: tuple[str, ...]) -> CommandBufferNotes:
    """Creates the notes of a new command buffer and reports them to all running profiles."""
    notes = CommandBufferNotes(device, ticket, region)
    with _lock:
        _open.add(ref(notes, _open.discard))
        for watcher in watchers:
            watcher.add(notes)
    return notes


def add_span(track: str, name: str, start_ns: int, end_ns: int, **args: Any) -> None:
    """Adds a span to a named track of all running profiles, such as a collective.

    Times are those of `time.monotonic_ns()`; check `watchers` first to avoid reading the clock.
    """
    for watcher in list(watchers):
        watcher.add_span(track, name, start_ns, end_ns, args)


def enter_region(path: tuple[str, ...]) -> None:
    """Sets the region of what this thread encodes from now on."""
    if watchers:
        here = get_ident()
        with _lock:
            mine = [notes for each in list(_open) if (notes := each()) is not None and notes.thread == here]
        for notes in mine:
            notes.regions.append((len(notes.log), path))
