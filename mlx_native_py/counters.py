"""Counters of dispatches, barriers, command buffers and waits: process-wide, per thread and in scopes.

Each encoder has its own `Tally`, written by one thread only, so that counting needs no lock. A thread's counters are
the sum of its encoders', the process's the sum of its threads'. Nothing is set back to zero: `reset_counters()` stores
a base.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat, starmap
from operator import attrgetter, call
from typing import Any
from weakref import ref

from .forks import Lock

__all__ = [
    "Scope",
    "Tally",
    "add",
    "auto_barrier_concurrent_count",
    "auto_barrier_count",
    "barrier_count",
    "barrier_total_ns",
    "cmd_buf_count",
    "dispatch_count",
    "mine",
    "open_tally",
    "reset_counters",
    "scope",
    "sync_count",
    "total",
]


@dataclass(slots=True)
class Tally:
    """The seven counters; each encoder and each thread has one."""

    dispatches: int = 0
    """Kernel launches, encoded or captured; replays are not counted again."""
    syncs: int = 0
    """Calls that commit and wait."""
    cmd_bufs: int = 0
    """Command buffers created."""
    barriers: int = 0
    """Memory barriers that reached a compute pass."""
    barrier_ns: int = 0
    """Nanoseconds inside the barrier call; only while `profile_barriers` is set."""
    auto_barriers: int = 0
    """Dispatches before which a hazard was found."""
    auto_concurrent: int = 0
    """Dispatches before which none was found."""

    def settle(self) -> None:
        """Brings counters up to date that are computed on demand."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in _NAMES))

    def __sub__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) - getattr(other, name) for name in _NAMES))


_MAX_ENCODERS = 64  # encoders per thread that are counted separately
_NAMES = ("dispatches", "syncs", "cmd_bufs", "barriers", "barrier_ns", "auto_barriers", "auto_concurrent")
_figures = attrgetter(*_NAMES)


class _Thread:
    """The counters of one thread and its encoders."""

    def __init__(self) -> None:
        self.own = Tally()
        self.encoders: dict[int, tuple[ref[Any], Tally]] = {}  # by the id of the tally
        self.ended = Tally()  # of encoders that are gone

    def sum(self) -> Tally:
        with _lock:
            figures = self.own + self.ended
            for _, tally in list(self.encoders.values()):
                tally.settle()
                figures += tally
            return figures

    def fold(self) -> None:
        """Adds up the counters of encoders that have been dropped."""
        # Not of items: those would be new tuples, and the garbage collector may run finalisers that open encoders.
        gone = {id(tally): tally for encoder, tally in list(self.encoders.values()) if encoder() is None}
        for tally in gone.values():
            tally.settle()
        ended = Tally(*map(sum, zip(_figures(self.ended), *map(_figures, gone.values()), strict=True)))
        steps = [*zip(repeat(self.encoders.pop), gone, strict=False), (setattr, self, "ended", ended)]
        deque(starmap(call, steps), maxlen=0)  # without a bytecode in between


class _Ending:
    """Reports the end of a thread; takes no lock, because it may run at any moment."""

    def __init__(self, thread: _Thread) -> None:
        self._thread = thread
        self._report = _ended.append

    def __del__(self) -> None:
        self._report(self._thread)


_lock = Lock()
_live: list[_Thread] = []
_ended: deque[_Thread] = deque()
_past = Tally()  # of threads that have ended
_is_tidying = False
_base = Tally()
_own = threading.local()


def _here() -> _Thread:
    """The current thread's counters, which outlive the thread."""
    known: dict[str, tuple[_Thread, _Ending]] = _own.__dict__
    if "counters" not in known:
        thread = _Thread()
        with _lock:
            _live.append(thread)
        known.setdefault("counters", (thread, _Ending(thread)))  # a finaliser may have been faster
    return known["counters"][0]


def mine() -> Tally:
    """The calling thread's own tally, for events outside encoders."""
    return _here().own


def open_tally(encoder: Any, tally: Tally) -> None:
    """Adds an encoder's tally to the calling thread's counters."""
    thread = _here()
    if len(thread.encoders) >= _MAX_ENCODERS:
        _tidy(thread.fold)
    thread.encoders[id(tally)] = ref(encoder), tally


def add(**amounts: int) -> None:
    """Adds to the calling thread's counters."""
    tally = mine()
    for name, amount in amounts.items():
        setattr(tally, name, getattr(tally, name) + amount)


def _tidy(work: Callable[[], object]) -> None:
    """Does `work` under the lock; not inside of another one, where a finaliser or signal handler asks for it."""
    global _is_tidying
    with _lock:
        if _is_tidying:
            return
        try:
            _is_tidying = True
            work()
        finally:
            _is_tidying = False


def _add_ended() -> None:
    global _past
    for thread in list(_ended):
        # A thread may end before its encoders do; its counts are kept separately until those are gone.
        thread.fold()
        if not thread.encoders:
            past = _past + thread.sum()
            _ended.remove(thread)
            _past = past
            _live.remove(thread)


def _sum() -> Tally:
    with _lock:
        _tidy(_add_ended)
        figures, threads = _past, list(_live)
        for thread in threads:
            figures += thread.sum()
        return figures


def total() -> Tally:
    """The counters of all threads since the last reset."""
    with _lock:
        return _sum() - _base


def reset_counters() -> None:
    """Resets the process-wide counters to zero; scopes and encoders are not affected."""
    global _base
    with _lock:
        _base = _sum()


class Scope:
    """The counts since a scope began, up to now or to its end."""

    def __init__(self, read: Callable[[], Tally]) -> None:
        self._read = read
        self._start = read() + Tally()
        self._end: Tally | None = None

    @property
    def tally(self) -> Tally:
        """All counters, as a value."""
        return (self._end or self._read()) - self._start

    def __getattr__(self, name: str) -> int:
        if name not in _NAMES:
            raise AttributeError(f"there is no counter {name!r}; there are: {', '.join(_NAMES)}")
        figure: int = getattr(self._end or self._read(), name) - getattr(self._start, name)
        return figure

    def __repr__(self) -> str:
        return f"Scope({self.tally})"

    def _close(self) -> None:
        self._end = self._read() + Tally()


@contextmanager
def scope(*, all_threads: bool = False) -> Iterator[Scope]:
    """Counts a block: what the calling thread counts inside it, or what all threads do.

    The counters can be read during and after the block, and `reset_counters()` does not affect them.

    >>> with scope() as c:
    ...     add(dispatches=1)
    ...     print(c.dispatches)
    ...     add(dispatches=1)
    1
    >>> c.dispatches
    2
    """
    counted = Scope(_sum if all_threads else _here().sum)
    try:
        yield counted
    finally:
        counted._close()


def dispatch_count() -> int:
    """Kernel launches encoded or captured."""
    return total().dispatches


def sync_count() -> int:
    """Calls that committed and waited."""
    return total().syncs


def cmd_buf_count() -> int:
    """Command buffers made."""
    return total().cmd_bufs


def barrier_count() -> int:
    """Memory barriers that reached a compute pass."""
    return total().barriers


def barrier_total_ns() -> int:
    """Nanoseconds spent in barrier calls while `profile_barriers` was set."""
    return total().barrier_ns


def auto_barrier_count() -> int:
    """Dispatches that needed a barrier before them."""
    return total().auto_barriers


def auto_barrier_concurrent_count() -> int:
    """Dispatches that could run beside those before them."""
    return total().auto_concurrent
