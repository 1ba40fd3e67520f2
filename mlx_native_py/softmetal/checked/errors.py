"""What checked mode finds, as exceptions with the facts as fields.

CheckedError           also RuntimeError   carries `others`: further findings of the same command buffer
├── OutOfBounds        also IndexError     an access outside what is bound
├── DataRace                               two threads of one dispatch, one writing, without order
└── MissingBarrier                         two dispatches of one concurrent encoder, one writing, no barrier
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...errors import CommandBufferError, DataRaceError, MissingBarrierError, OutOfBoundsError
from ..program import Diagnostic
from .arrays import OutsideArray

Position = tuple[int, int, int]


class CheckedError(RuntimeError):
    """A kernel did what no kernel may do; the message says what, where, and what would help."""

    others: tuple[CheckedError, ...] = ()
    raised_as: ClassVar[type[CommandBufferError]] = CommandBufferError
    """What a command buffer fails with because of it."""


observers: list[Callable[[CheckedError], None]] = []
"""Who hears of every finding, also of one that a program catches or never waits for."""


@dataclass(frozen=True)
class Access:
    """One access of a thread; `thread` is None where only the group is known."""

    kind: Literal["read", "write", "atomic read", "atomic write", "atomic update", "access"]  # the last: unknown which
    bytes: int
    group: Position
    thread: Position | None

    def __str__(self) -> str:
        return f"{self.kind} of {self.bytes} bytes" if self.bytes else self.kind

    @property
    def who(self) -> str:
        return f"thread {self.thread} of threadgroup {self.group}" if self.thread else f"threadgroup {self.group}"


@dataclass(frozen=True)
class Place:
    """The memory that an access met, or came nearest to; `offset` counts bytes from where it begins."""

    space: Literal[
        "buffer",
        "inline bytes",
        "resident buffer",
        "texture",
        "unbound slot",
        "threadgroup memory",
        "private memory",
        "nowhere",
    ]
    offset: int
    length: int = 0
    slot: int | None = None
    name: str = ""
    label: str = ""

    def __str__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        facts = [f"slot {self.slot}"] if self.slot is not None else []
        facts += [f"label {self.label!r}"] if self.label else []
        facts += [f"{self.length} bytes"] if self.length else []
        return f"{self.space}{name}" + (f" ({', '.join(facts)})" if facts else "")


def shown(source: Diagnostic | None) -> str:
    """A place of the user's source as lines of a message, with a caret."""
    if source is None:
        return ""
    return f"\n{source.file}:{source.line}:{source.column}\n{source.source_line}\n{' ' * (source.column - 1)}^"


class OutOfBounds(CheckedError, IndexError):
    """An access outside of bound buffers, inline bytes, threadgroup memory or an array; it was not carried out."""

    raised_as = OutOfBoundsError

    def __init__(
        self, kernel: str, access: Access, place: Place, what: str, advice: str, array: OutsideArray | None = None
    ) -> None:
        source = array.source if array is not None else None
        super().__init__(
            f"kernel {kernel!r}: {access} {what}; {access.who}. "
            f"The access was not carried out and its threadgroup was abandoned. {advice}{shown(source)}"
        )
        self.kernel, self.access, self.place, self.array, self.source = kernel, access, place, array, source


class DataRace(CheckedError):
    """Two threads touch the same bytes, at least one writes, and nothing puts them in order."""

    raised_as = DataRaceError

    def __init__(self, kernel: str, access: Access, other: Access, place: Place, advice: str) -> None:
        super().__init__(
            f"kernel {kernel!r}: data race on byte {place.offset} of {place}: {access.kind} of "
            f"{access.bytes} bytes by {access.who}, and {other.kind} by {other.who}. {advice}"
        )
        self.kernel, self.access, self.other, self.place = kernel, access, other, place


@dataclass(frozen=True)
class DispatchName:
    """A dispatch within its encoder."""

    index: int
    kernel: str
    label: str = ""

    def __str__(self) -> str:
        return f"dispatch {self.index} ({self.kernel!r}{f', {self.label!r}' if self.label else ''})"


_VERBS = {"RAW": ("writes", "reads"), "WAR": ("reads", "writes"), "WAW": ("writes", "writes")}


class MissingBarrier(CheckedError):
    """Two dispatches of one concurrent encoder touch the same bytes, at least one writes, with no barrier between."""

    raised_as = MissingBarrierError

    def __init__(
        self,
        kind: Literal["RAW", "WAR", "WAW"],
        first: DispatchName,
        second: DispatchName,
        buffer: str,
        span: tuple[int, int],
    ) -> None:
        before, after = _VERBS[kind]
        super().__init__(
            f"missing barrier ({kind}): {first} {before} bytes [{span[0]}, {span[1]}) of {buffer} and {second} "
            f"{after} them, with no barrier between in one concurrent encoder. Call memoryBarrierWithScope_"
            "(MTLBarrierScopeBuffers) or memoryBarrierWithResources_count_ before the second."
        )
        self.kind, self.first, self.second, self.buffer, self.span = kind, first, second, buffer, span


def combined(findings: Sequence[CheckedError]) -> CheckedError | None:
    """The first finding of a command buffer, with the others attached; observers hear of it."""
    if not findings:
        return None
    findings[0].others = tuple(findings[1:])
    for observer in observers:
        observer(findings[0])
    return findings[0]
