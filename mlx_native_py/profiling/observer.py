"""What encoders and queues tell the profiles that are running; where none runs they tell nothing.

Nothing here is called for a single dispatch: the encoder's log has them, and is kept with its command buffer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from threading import get_ident
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

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
    """A profile."""

    dispatches: bool
    """Whether it wants each dispatch timed."""

    def add(self, notes: CommandBufferNotes) -> None:
        """A command buffer was opened."""
        ...

    def add_span(self, track: str, name: str, start_ns: int, end_ns: int, args: dict[str, Any]) -> None:
        """Something else took a while."""
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
    """The dispatch of the plan that it waits for and the hazard; None where it does not, or by hand."""


class CommandBufferNotes:
    """One command buffer from its opening to its completion; times are in nanoseconds of the monotonic clock."""

    def __init__(self, device: Any, ticket: Any, region: tuple[str, ...]) -> None:
        self.device = device
        self.thread = get_ident()
        self.log: list[Any] = ticket.log
        self.kinds: dict[int, Any] = ticket.kinds
        self.barriers: list[tuple[int, int | None]] = ticket.barriers
        """The entry of the log that each stands before, and where those begin that it could be about."""
        self.regions: list[tuple[int, tuple[str, ...]]] = [(0, region)]
        """From which entry of the log on which region is open."""
        self.plans: dict[int, Sequence[PlannedLaunch]] = {}
        """The dispatches of the plans among the entries of the log."""
        self.dispatches: list[DispatchEntry] = []
        """The times of single dispatches, where those were wanted."""
        self.memory: list[tuple[int, int]] = []
        """Moments, and the bytes that the device had allocated then."""
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
        """Encoding is over, and the command buffer is about to be committed."""
        self.label = label
        self.ended = self._note_memory()
        with _lock:
            _open.discard(self)

    def commit(self, sequence: int) -> None:
        """It is in flight."""
        self.sequence = sequence
        self.committed = time.monotonic_ns()

    def settle(
        self, times: tuple[float, float], provenance: Provenance, timing: Provenance | None, failed: bool
    ) -> None:
        """It is done."""
        self.gpu = int(times[0] * 1e9), int(times[1] * 1e9)
        self.provenance, self.dispatch_timing, self.failed = provenance, timing, failed
        self.settled = self._note_memory()


watchers: list[Watcher] = []
"""The profiles that are running, in all threads."""

_lock = threading.Lock()
_open: WeakSet[CommandBufferNotes] = WeakSet()


def start(watcher: Watcher) -> None:
    """From now on command buffers that are opened are told to `watcher`."""
    with _lock:
        watchers.append(watcher)


def stop(watcher: Watcher) -> None:
    """No more of them; those that are open already are told to their end."""
    with _lock:
        if watcher in watchers:
            watchers.remove(watcher)


def wants_dispatches() -> bool:
    """Whether a profile wants each dispatch timed."""
    return any(watcher.dispatches for watcher in watchers)


def open_notes(device: Any, ticket: Any, region: tuple[str, ...]) -> CommandBufferNotes:
    """The notes of a fresh command buffer, for all profiles that are running."""
    notes = CommandBufferNotes(device, ticket, region)
    with _lock:
        _open.add(notes)
        for watcher in watchers:
            watcher.add(notes)
    return notes


def add_span(track: str, name: str, start_ns: int, end_ns: int, **args: Any) -> None:
    """Puts a span on a named track of all profiles that are running, such as a collective of ranks.

    Times are nanoseconds of `time.monotonic_ns()`; ask `watchers` first, where reading the clock is too much.
    """
    for watcher in list(watchers):
        watcher.add_span(track, name, start_ns, end_ns, args)


def enter_region(path: tuple[str, ...]) -> None:
    """What this thread encodes from now on belongs to a region."""
    if watchers:
        here = get_ident()
        with _lock:
            mine = [notes for notes in _open if notes.thread == here]
        for notes in mine:
            notes.regions.append((len(notes.log), path))
