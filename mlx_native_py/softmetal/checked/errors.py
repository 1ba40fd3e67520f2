"""What checked mode finds, as exceptions with the facts as fields.

CheckedError           also RuntimeError   carries `others`: further findings of the same command buffer
├── OutOfBounds        also IndexError     an access outside what is bound
├── DataRace                               two threads of one dispatch, one writing, without order
├── MissingBarrier                         two dispatches of one concurrent encoder, one writing, no barrier
│   ├── UnorderedQueues                    the same of two queues, with no event between
│   └── MissingFence                       the same of two passes, in memory that Metal does not track
├── DivergentBarrier                       a barrier that not all threads of a threadgroup reach
├── MisalignedAccess                       an address that is no multiple of what its type asks for
├── UndeclaredAccess                       a dispatch touches what it does not declare
├── UninitialisedRead                      a read of memory that nobody has written
└── OrderDependence                        a pass leaves other bytes where its work comes in another order
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...errors import (
    CommandBufferError,
    DataRaceError,
    DivergentBarrierError,
    MisalignedAccessError,
    MissingBarrierError,
    OrderDependenceError,
    OutOfBoundsError,
    UndeclaredAccessError,
    UninitialisedReadError,
)
from ..program import Diagnostic, caret
from .arrays import OutsideArray

Position = tuple[int, int, int]


class CheckedError(RuntimeError):
    """A violation by a kernel; the message says what, where, and what would help."""

    others: tuple[CheckedError, ...] = ()
    raised_as: ClassVar[type[CommandBufferError]] = CommandBufferError
    """What a command buffer fails with because of it."""


observers: list[Callable[[CheckedError], None]] = []
"""Who hears of every finding, also of one that a program catches or never waits for."""


@dataclass(frozen=True)
class Access:
    """One access by a thread; `thread` is None if only the group is known."""

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
    """The memory of an access, or the nearest; `offset` counts bytes from its start."""

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
    texel: tuple[int, int, int] | None = None  # x, y, and slice or depth
    level: int = 0

    @property
    def where(self) -> str:
        """The texel of a texture, or how far into the memory."""
        return f"byte offset {self.offset}" if self.texel is None else f"texel {self.texel} of level {self.level}"

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
    return f"\n{source.file}:{source.line}:{source.column}\n{caret(source.source_line, source.column)}"


class OutOfBounds(CheckedError, IndexError):
    """An access outside bound buffers, inline bytes, threadgroup memory or an array; it was not performed."""

    raised_as = OutOfBoundsError

    def __init__(
        self,
        kernel: str,
        access: Access,
        place: Place,
        what: str,
        advice: str,
        array: OutsideArray | None = None,
        source: Diagnostic | None = None,
    ) -> None:
        source = array.source if array is not None and array.source is not None else source
        super().__init__(
            f"kernel {kernel!r}: {access} {what}; {access.who}. "
            f"The access was not carried out and its threadgroup was abandoned. {advice}{shown(source)}"
        )
        self.kernel, self.access, self.place, self.array, self.source = kernel, access, place, array, source


class DataRace(CheckedError):
    """Two threads access the same bytes, at least one writes, and nothing orders them."""

    raised_as = DataRaceError

    def __init__(
        self,
        kernel: str,
        access: Access,
        other: Access,
        place: Place,
        advice: str,
        sources: tuple[Diagnostic | None, Diagnostic | None] = (None, None),
    ) -> None:
        lines = [
            f"\nthe {what.kind}:{shown(where)}" for what, where in zip((access, other), sources, strict=True) if where
        ]
        super().__init__(
            f"kernel {kernel!r}: data race on byte {place.offset} of {place}: {access.kind} of "
            f"{access.bytes} bytes by {access.who}, and {other.kind} by {other.who}. {advice}{''.join(lines)}"
        )
        self.kernel, self.access, self.other, self.place = kernel, access, other, place
        self.source, self.other_source = sources


Absent = Literal["waits at another", "has ended"]
_TO_ALL: dict[Absent, str] = {
    "waits at another": "move it out of the condition",
    "has ended": "put what follows under a condition, without the barriers, instead of returning early",
}


class DivergentBarrier(CheckedError):
    """A barrier that not all threads of a threadgroup reach: others wait at another one or have ended."""

    raised_as = DivergentBarrierError

    def __init__(
        self,
        kernel: str,
        group: Position,
        thread: Position | None,
        other: Position,
        sources: tuple[Diagnostic | None, Diagnostic | None],
        absent: Absent = "waits at another",
    ) -> None:
        lines = [f"\nthread {who}:{shown(where)}" for who, where in zip((thread, other), sources, strict=True) if where]
        super().__init__(
            f"kernel {kernel!r}: thread {thread} of threadgroup {group} waits at a barrier, and thread {other} "
            f"{absent}. All threads of a threadgroup must come to each barrier: {_TO_ALL[absent]}.{''.join(lines)}"
        )
        self.kernel, self.group, self.thread, self.other, self.absent = kernel, group, thread, other, absent
        self.source, self.other_source = sources


class UninitialisedRead(CheckedError):
    """A read of memory that neither the CPU nor a kernel has written, or of what has no value in a thread."""

    raised_as = UninitialisedReadError

    def __init__(
        self, kernel: str, access: Access, place: Place, advice: str, source: Diagnostic | None, what: str = ""
    ) -> None:
        """`what` has no value, where it is not memory that others see."""
        what = what or f"{access} that nobody has written: {place.where} of {place}"
        super().__init__(f"kernel {kernel!r}: {what}; {access.who}. {advice}{shown(source)}")
        self.kernel, self.access, self.place, self.source = kernel, access, place, source


class MisalignedAccess(CheckedError):
    """An access that is misaligned for its type."""

    raised_as = MisalignedAccessError

    def __init__(self, kernel: str, access: Access, place: Place, alignment: int, source: Diagnostic | None) -> None:
        super().__init__(
            f"kernel {kernel!r}: {access} at byte offset {place.offset} of {place}, which is not aligned to "
            f"{alignment} bytes; {access.who}. Align what is bound, or use a packed type.{shown(source)}"
        )
        self.kernel, self.access, self.place, self.alignment, self.source = kernel, access, place, alignment, source


@dataclass(frozen=True)
class DispatchName:
    """A dispatch within its encoder, or a blit; `where` adds detail if several command buffers are involved."""

    index: int
    kernel: str
    label: str = ""
    where: str = ""

    def __str__(self) -> str:
        return f"dispatch {self.index} ({self.kernel!r}{f', {self.label!r}' if self.label else ''}){self.where}"


_VERBS = {"RAW": ("writes", "reads"), "WAR": ("reads", "writes"), "WAW": ("writes", "writes")}


class MissingBarrier(CheckedError):
    """Two dispatches of one concurrent encoder access the same bytes, at least one writes, without a barrier."""

    raised_as = MissingBarrierError
    what: ClassVar[str] = "missing barrier"
    advice: ClassVar[str] = (
        "with no barrier between in one concurrent encoder. Call memoryBarrierWithScope_(MTLBarrierScopeBuffers) or "
        "memoryBarrierWithResources_count_ before the second."
    )

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
            f"{self.what} ({kind}): {first} {before} bytes [{span[0]}, {span[1]}) of {buffer} and {second} {after} "
            f"them, {self.advice}"
        )
        self.kind, self.first, self.second, self.buffer, self.span = kind, first, second, buffer, span


class UnorderedQueues(MissingBarrier):
    """Command buffers of two queues access the same bytes, at least one writes, and nothing orders them."""

    what = "missing order between queues"
    advice = (
        "with no event and no wait of the CPU between. Signal an event after the first and wait for it before the "
        "second, or wait for the first command buffer before the second is committed."
    )


class MissingFence(MissingBarrier):
    """Two passes of one queue access the same bytes of memory that Metal does not track, and no fence orders them."""

    what = "missing fence"
    advice = (
        "in another pass, with no fence between, and Metal does not track hazards of this memory. Call updateFence_ in "
        "the first pass and waitForFence_ in the second, or make the memory tracked."
    )


class UndeclaredAccess(CheckedError):
    """A dispatch accesses bytes that it does not declare, so a barrier may be missing."""

    raised_as = UndeclaredAccessError

    def __init__(self, kernel: str, verb: str, buffer: str, span: tuple[int, int]) -> None:
        super().__init__(
            f"kernel {kernel!r} {verb} bytes [{span[0]}, {span[1]}) of {buffer}, which its dispatch does not declare. "
            f"Barriers follow what is declared: name them in {verb}=, or leave it to the kernel's signature."
        )
        self.kernel, self.verb, self.buffer, self.span = kernel, verb, buffer, span


class OrderDependence(CheckedError):
    """A pass gave different bytes in another order of its dispatches and threadgroups."""

    raised_as = OrderDependenceError

    def __init__(self, difference: str) -> None:
        super().__init__(
            f"results depend on the order: {difference}. Dispatches between two barriers, and the threadgroups of a "
            "dispatch, come in any order: what they share needs barriers, atomics, or bytes of its own."
        )


def combined(findings: Sequence[CheckedError]) -> CheckedError | None:
    """The first finding of a command buffer, with the others attached; observers hear of it."""
    if not findings:
        return None
    findings[0].others = tuple(findings[1:])
    for observer in observers:
        observer(findings[0])
    return findings[0]
