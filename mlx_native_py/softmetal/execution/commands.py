"""Commands other than compute passes: blits and events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..memory import DeviceMemory
from .events import EventState
from .passes import FenceUse, LostResource, Pass


@dataclass(frozen=True)
class Blit:
    """One blit command."""

    name: str
    detail: str
    allocations: tuple[DeviceMemory, ...]
    perform: Callable[[], object]
    reads: tuple[int, int] | None = None  # addresses
    writes: tuple[int, int] | None = None

    def run(self) -> None:
        for allocation in self.allocations:
            if not allocation.live:
                raise LostResource(
                    f"{self.name}: buffer {allocation.label or ''!r} was released before the command ran"
                )
        self.perform()


@dataclass
class BlitPass:
    """A blit encoder's commands, in order."""

    label: str | None = None
    signposts: list[str] = field(default_factory=list)
    fences: list[FenceUse] = field(default_factory=list)
    blits: list[Blit] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Signal:
    """Sets an event's value."""

    event: EventState
    value: int


@dataclass(eq=False, slots=True)
class WaitFor:
    """Blocks the queue until an event's value is reached."""

    event: EventState
    value: int


@dataclass(frozen=True)
class Fail:
    """Ends the command buffer with an error, for fault injection."""

    code: int


Command = Pass | BlitPass | Signal | WaitFor | Fail
