"""Tickets: the completion, error and GPU time of a submitted command buffer."""

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

__all__ = ["DISCARDED", "DONE", "OPEN", "SUBMITTED", "Ticket"]

OPEN, SUBMITTED, DONE, DISCARDED = range(4)
_MAX_SLEEP = 0.002  # seconds between polls of an awaiting task


class Ticket:
    """Tracks a committed command buffer. It may be dropped: the work continues, and the next wait raises its error.

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
        "barriers",
        "failed",
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
        "state",
        "times",
        "timed",
        "turn",
        "value",
        "__weakref__",
    )

    def __init__(self, queue: Submissions) -> None:
        self._queue = queue
        self.state = OPEN
        """OPEN, SUBMITTED, DONE or DISCARDED."""
        self._error: BaseException | None = None
        self.failed = False
        """Whether it is known to have failed."""
        self.mtl: Any = None
        self.label = ""
        self.log: list[Any] = []
        """The encoder's log: one entry per dispatch or plan, starting with its pipeline or list of pipelines."""
        self.barriers: list[tuple[int, int | None]] = []
        """The encoder's barriers, as recorded by its tracker."""
        self.kinds: dict[int, CapturedOpKind] = {}
        """The kinds of some dispatches, by log index."""
        self.keep: set[Any] = set()
        """Objects to keep alive until the GPU has finished."""
        self.results: list[MlxBuffer] = []
        """Result buffers created by the encoder; they are recycled after completion."""
        self.samples: Any = None
        self.notes: CommandBufferNotes | None = None
        """Data for running profiles."""
        self.timed = False
        self.fence: tuple[Any, int] | None = None
        """The event and value that other command buffers may wait for."""
        self.turn = 0
        """The thread that runs CPU work while this command buffer is paused; it need not wait for it."""
        self.sequence = 0
        self.value = 0
        """The value of the queue's event that signals completion."""
        self.times = (0.0, 0.0)

    def done(self) -> bool:
        """Whether the GPU will no longer use this work's memory: completed or discarded."""
        if self.state == SUBMITTED:
            self._queue.poll(self)
        return self.state >= DONE

    def in_flight(self) -> tuple[Ticket, ...]:
        """This ticket while it is pending; empty for the thread that serves its pause."""
        return () if self.turn == get_ident() or self.done() else (self,)

    def wait(self, timeout: float | None = None) -> None:
        """Waits for completion; raises `WaitTimeout` after `timeout` seconds.

        Raises the error of this command buffer, every time, or an unreported error of an earlier one.
        """
        if self.turn != get_ident():
            self._queue.wait(self, timeout)

    @property
    def error(self) -> BaseException | None:
        """The error, if the work has completed and failed."""
        return self._error if self.done() else None

    @property
    def gpu_interval(self) -> tuple[float, float]:
        """Start and end on the GPU, in seconds of the host clock."""
        if not self.done() or self.state == DISCARDED:
            raise EncoderStateError(f"{self!r} is not done, so its GPU times are not known; wait for it first")
        return self.times

    @property
    def gpu_time(self) -> float:
        """Seconds on the GPU."""
        start, end = self.gpu_interval
        return max(0.0, end - start)

    def __await__(self) -> Generator[Any, None, None]:
        return self._finished().__await__()

    async def _finished(self) -> None:
        import asyncio  # slow to import, and needed by few

        # Polled, because Metal's callbacks would run Python on threads that Metal owns.
        nap = 0.0
        while not self.done():
            await asyncio.sleep(nap)
            nap = min(_MAX_SLEEP, nap + 0.0001)
        self.wait()

    def hold(self, allocation: Allocation) -> None:
        """For the encoder: keeps memory in use until completion."""
        if allocation not in self.keep:
            allocation.hold(self)
            self.keep.add(allocation)

    def writes(self, span: Span) -> bool:
        """Whether any of its dispatches writes a byte of the span."""
        written = (other for entry in self.log for other in touched(entry)[1])
        return any(shared_bytes(span, other) is not None for other in written)

    def close(self, error: BaseException | None, times: tuple[float, float]) -> None:
        """For the queue: marks the work as completed."""
        self._error, self.failed = error, error is not None
        self.times = times
        self.state = DONE
        self.keep.clear()
        self.mtl = None

    def discard(self) -> None:
        """For the encoder: marks the work as never submitted."""
        self.state = DISCARDED
        self.keep.clear()
        self.mtl = None

    @property
    def is_submitted(self) -> bool:
        return self.state in (SUBMITTED, DONE)

    @property
    def is_closed(self) -> bool:
        return self.state >= DONE

    @property
    def dispatches(self) -> list[Dispatched]:
        """The dispatches in encoding order, including those of plans."""
        dispatches: list[Dispatched] = []
        for at, entry in enumerate(self.log):
            kind = self.kinds.get(at, CapturedOpKind.Other)
            dispatches += [Dispatched(len(dispatches) + n, each, kind) for n, each in enumerate(_pipelines(entry))]
        return dispatches

    def dispatch_count(self) -> int:
        """The number of dispatches."""
        return self.position(len(self.log))

    def position(self, at: int) -> int:
        """The index of the first dispatch of a log entry."""
        return sum(len(_pipelines(entry)) for entry in self.log[:at])

    def describe(self) -> str:
        """A short description for messages."""
        name, count = f" {self.label!r}" if self.label else "", self.dispatch_count()
        return f"command buffer{name} of {count} dispatch{'' if count == 1 else 'es'}"

    def failure(
        self, code: int | None, message: str, kind: type[CommandBufferError] = CommandBufferError
    ) -> CommandBufferError:
        """The exception for an error that the GPU reported."""
        names = [pipeline.label for entry in self.log for pipeline in _pipelines(entry)]
        return kind(message, code=code, label=self.label, dispatches=names)

    def __repr__(self) -> str:
        state = ("open", "submitted", "done", "discarded")[self.state]
        return f"<Ticket of {self.describe()}, {'failed' if self._error else state}>"


def _pipelines(entry: Any) -> list[Pipeline]:
    return entry[0] if isinstance(entry[0], list) else [entry[0]]
