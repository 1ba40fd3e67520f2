"""The state of a command buffer: its commands and its progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import ref

from .. import constants as c
from ..misuse import MetalMisuse
from ..process import is_forked
from .commands import Command
from .device import DeviceState
from .inline_bytes import InlineBytes
from .residency import ResidencyState

Handler = Callable[..., object]
_NO_RESIDENCY: Mapping[ResidencyState, None] = {}


def _forget(_: object) -> None:
    """Retains nothing."""


@dataclass(frozen=True)
class Failure:
    """The code and text of an NSError."""

    code: int
    message: str
    finding: Exception | None = None  # what checked mode raises at waitUntilCompleted
    encoders: tuple[tuple[str | None, int, tuple[str, ...]], ...] | None = None  # label, error state, signposts


@dataclass(eq=False, slots=True)
class CommandOutcome:
    """Start and end on the device, in monotonic seconds, and the failure, if any."""

    start: float
    end: float
    failure: Failure | None = None


class _Unheard:
    """Reports an exception of a handler that nobody has waited for."""

    def __init__(self, work: CommandBufferState) -> None:
        self._work = work

    def __del__(self) -> None:
        error = self._work.handler_error
        if error is not None and not sys.is_finalizing():
            raise MetalMisuse(f"a handler of {self._work.name} raised, and nobody waited for it") from error


class CommandBufferState:
    """The commands of a command buffer. Progress is recorded by single stores, which exceptions cannot interrupt.

    `claim` holds one token, the index of the first command that is not `done`; whoever takes it runs the commands from
    there. `progress` receives the results of a direct run; if that stops before the last command, a token is returned.
    `outcome` is set when the work ends, `finished` when handlers have run too.
    """

    __slots__ = (
        "__weakref__",
        "captures",
        "claim",
        "commands",
        "completed_handlers",
        "constants",
        "device",
        "done",
        "encoding",
        "error_options",
        "finished",
        "handler_error",
        "history",
        "inline",
        "kept",
        "kernel_end",
        "kernel_start",
        "label",
        "lost_encoder",
        "outcome",
        "progress",
        "residency",
        "retain",
        "retained",
        "scheduled",
        "scheduled_handlers",
        "serial",
        "shared_ns",
        "started",
        "_unheard",
    )

    def __init__(self, device: DeviceState, serial: int, retained: bool, error_options: int) -> None:
        self.device = device
        self.serial = serial
        self.retained = retained
        self.error_options = error_options
        self.label: str | None = None
        self.kept: set[Any] = set()
        self.retain: Callable[[Any], None] = self.kept.add if retained else _forget
        self.commands: list[Command] = []
        self.done: list[float] = []  # for each of the first commands that direct runs have done, when that run began
        self.constants = device.inline.constants  # held: the device may replace them meanwhile
        self.inline: InlineBytes | None = None  # made for the first bytes that they do not have
        self.residency = _NO_RESIDENCY
        self.captures: tuple[Any, ...] = ()
        self.scheduled_handlers: tuple[Handler, ...] = ()
        self.completed_handlers: tuple[Handler, ...] = ()
        self.handler_error: BaseException | None = None
        self.history: Any = None  # in checked mode: what it ran, and what came before
        self.encoding: ref[object] | None = None
        """The encoder that is open."""
        self.lost_encoder = False
        self._unheard: _Unheard | None = None
        self.claim = [0]
        self.progress: list[Any] = []
        self.started = self.scheduled = self.finished = False
        self.outcome: CommandOutcome | None = None
        self.kernel_start = self.kernel_end = 0.0
        self.shared_ns = 0.0  # what its dispatches of several threadgroups will take, as far as it is known

    def store(self, data: bytes) -> int:
        """Where a copy of the bytes is while the command buffer runs."""
        inline = self.inline
        if inline is None:
            self.inline = inline = InlineBytes(self.device.inline, self.constants)
        return inline.store(data)

    def status(self, place: object) -> int:
        """The MTLCommandBufferStatus; `place` is what the queue's order says."""
        if self.outcome is not None:
            return c.MTLCommandBufferStatusError if self.outcome.failure else c.MTLCommandBufferStatusCompleted
        if self.started:
            return c.MTLCommandBufferStatusScheduled
        if place is None:
            return c.MTLCommandBufferStatusNotEnqueued
        return c.MTLCommandBufferStatusCommitted if place else c.MTLCommandBufferStatusEnqueued

    def is_left(self) -> bool:
        """Whether it has run, and the thread that was to finish it stayed with the parent of this process."""
        return self.outcome is not None and is_forked()

    def lose(self, _: object) -> None:
        """The open encoder was dropped; Python reports what is raised here."""
        self.encoding, self.lost_encoder = None, True
        if not sys.is_finalizing():
            raise MetalMisuse(f"an encoder of {self.name} was released without endEncoding; on Metal the process dies")

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"command buffer {self.label!r}" if self.label else f"command buffer {self.serial}"

    def seen(self) -> None:
        """The CPU knows that it has ended."""
        if self.history is not None:
            self.history.seen()

    def release(self) -> None:
        """Lets go of what the commands needed; said again where an exception came in between."""
        self.commands.clear()
        self.kept.clear()
        self.residency = _NO_RESIDENCY
        if self.inline is not None:
            self.inline.release()

    def call(self, handlers: Iterable[Handler], *arguments: object) -> None:
        """Runs handlers, each whatever the others do."""
        for handler in handlers:
            try:
                handler(*arguments)
            except BaseException as error:
                self.blame(error)

    def blame(self, error: BaseException) -> None:
        """Keeps an exception of a handler for whoever waits, and tells it when the command buffer is dropped before."""
        self.handler_error = self.handler_error or error
        self._unheard = _Unheard(self)
