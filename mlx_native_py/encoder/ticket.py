"""A submitted command buffer: whether it is done, how to wait for it, what went wrong, how long the GPU took."""

from __future__ import annotations

from collections.abc import Generator
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ..errors import CommandBufferError, EncoderStateError
from ..hazards.ranges import Span, shared_bytes
from ..hazards.tracker import touched
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Pipeline
from ..profiling.observer import CommandBufferNotes
from .dispatch import CapturedOpKind, Dispatched

if TYPE_CHECKING:
    from .submissions import Submissions

__all__ = ["Ticket"]

_LONGEST_NAP = 0.002  # between two looks of an awaiting task


class Ticket:
    """What `commit()` hands back. It may be dropped: the work goes on, and an error is raised by the next wait.

    >>> enc.dispatch(axpy, x, y, 2.0, threads=4)
    >>> ticket = enc.commit(label="step")
    >>> ticket.wait(timeout=60.0)
    >>> ticket
    <Ticket of command buffer 'step' of 1 dispatch, done>
    >>> ticket.gpu_time > 0.0
    True
    """

    __slots__ = (
        "_error",
        "_queue",
        "_state",
        "barriers",
        "fence",
        "keep",
        "kinds",
        "label",
        "log",
        "mtl",
        "notes",
        "results",
        "samples",
        "sequence",
        "times",
        "timed",
        "turn",
        "value",
        "__weakref__",
    )

    OPEN, SUBMITTED, DONE, DISCARDED = range(4)

    def __init__(self, queue: Submissions) -> None:
        self._queue = queue
        self._state = Ticket.OPEN
        self._error: BaseException | None = None
        self.mtl: Any = None
        self.label = ""
        self.log: list[Any] = []
        """The encoder's log: an entry for each dispatch or plan, which begins with its pipeline, or a list of them."""
        self.barriers: list[tuple[int, int | None]] = []
        """The encoder's barriers, as its tracker keeps them."""
        self.kinds: dict[int, CapturedOpKind] = {}
        """What some of them compute, by index in the log."""
        self.keep: set[Any] = set()
        """What the GPU may use until it is done."""
        self.results: list[MlxBuffer] = []
        """Buffers that the encoder made for results; they are used again when the work is done."""
        self.samples: Any = None
        self.notes: CommandBufferNotes | None = None
        """What running profiles are told of it."""
        self.timed = False
        self.fence: tuple[Any, int] | None = None
        """The event and the value that others may be waiting for."""
        self.turn = 0
        """The thread whose turn it is, while the work has stopped for the CPU: that thread need not wait for it."""
        self.sequence = 0
        self.value = 0
        """Of the queue's event, once the GPU is through."""
        self.times = (0.0, 0.0)

    def done(self) -> bool:
        """Whether the GPU will not touch this work's memory any more: it is through with it, or never saw it."""
        if self._state == Ticket.SUBMITTED:
            self._queue.poll(self)
        return self._state >= Ticket.DONE

    def in_flight(self) -> tuple[Ticket, ...]:
        """Itself, while it is not done; nothing for the thread that it has stopped for."""
        return () if self.turn == get_ident() or self.done() else (self,)

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the GPU is done; `timeout` is in seconds, and running out of it raises `WaitTimeout`.

        Raises the error of this command buffer, each time, or else that of another one which nobody has seen yet.
        """
        if self.turn != get_ident():
            self._queue.wait(self, timeout)

    @property
    def error(self) -> BaseException | None:
        """What went wrong, if the work is done and something did."""
        return self._error if self.done() else None

    @property
    def gpu_interval(self) -> tuple[float, float]:
        """When the GPU began and ended, in seconds of the host's clock."""
        if not self.done() or self._state == Ticket.DISCARDED:
            raise EncoderStateError(f"{self!r} is not done, so its GPU times are not known; wait for it first")
        return self.times

    @property
    def gpu_time(self) -> float:
        """Seconds that the GPU took."""
        start, end = self.gpu_interval
        return max(0.0, end - start)

    def __await__(self) -> Generator[Any, None, None]:
        return self._finished().__await__()

    async def _finished(self) -> None:
        import asyncio  # slow to import, and needed by few

        # Polled, because Metal's notifications would run Python on threads that it does not own.
        nap = 0.0
        while not self.done():
            await asyncio.sleep(nap)
            nap = min(_LONGEST_NAP, nap + 0.0001)
        self.wait()

    def hold(self, allocation: Allocation) -> None:
        """For the encoder: the GPU may use this memory until the work is done."""
        if allocation not in self.keep:
            allocation.hold(self)
            self.keep.add(allocation)

    def writes(self, span: Span) -> bool:
        """Whether any of its dispatches writes any byte of a span."""
        written = (other for entry in self.log for other in touched(entry)[1])
        return any(shared_bytes(span, other) is not None for other in written)

    def close(self, error: BaseException | None, times: tuple[float, float]) -> None:
        """For the queue: the work is done."""
        self._error = error
        self.times = times
        self._state = Ticket.DONE
        self.keep.clear()
        self.mtl = None

    def discard(self) -> None:
        """For the encoder: the work will never be submitted."""
        self._state = Ticket.DISCARDED
        self.keep.clear()
        self.mtl = None

    def submitted(self) -> None:
        """For the queue: the work is on its way."""
        self._state = Ticket.SUBMITTED

    @property
    def failed(self) -> bool:
        """For the queue: whether it is known to have gone wrong."""
        return self._error is not None

    @property
    def is_submitted(self) -> bool:
        return self._state in (Ticket.SUBMITTED, Ticket.DONE)

    @property
    def is_closed(self) -> bool:
        return self._state >= Ticket.DONE

    @property
    def dispatches(self) -> list[Dispatched]:
        """The dispatches in the order in which they were encoded, those of plans among them."""
        dispatches: list[Dispatched] = []
        for at, entry in enumerate(self.log):
            kind = self.kinds.get(at, CapturedOpKind.Other)
            dispatches += [Dispatched(len(dispatches) + n, each, kind) for n, each in enumerate(_pipelines(entry))]
        return dispatches

    def dispatch_count(self) -> int:
        """How many dispatches there are."""
        return self.position(len(self.log))

    def position(self, at: int) -> int:
        """The number of the first dispatch of an entry of the log."""
        return sum(len(_pipelines(entry)) for entry in self.log[:at])

    def describe(self) -> str:
        """In words, for messages."""
        name, count = f" {self.label!r}" if self.label else "", self.dispatch_count()
        return f"command buffer{name} of {count} dispatch{'' if count == 1 else 'es'}"

    def failure(
        self, code: int | None, message: str, kind: type[CommandBufferError] = CommandBufferError
    ) -> CommandBufferError:
        """The exception for an error that the GPU reports."""
        names = [pipeline.label for entry in self.log for pipeline in _pipelines(entry)]
        return kind(message, code=code, label=self.label, dispatches=names)

    def __repr__(self) -> str:
        state = ("open", "submitted", "done", "discarded")[self._state]
        return f"<Ticket of {self.describe()}, {'failed' if self._error else state}>"


def _pipelines(entry: Any) -> list[Pipeline]:
    return entry[0] if isinstance(entry[0], list) else [entry[0]]
