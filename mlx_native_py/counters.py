"""The only place of tallies: what was encoded and waited for, process-wide, per thread and in scopes.

Each thread counts in a `Tally` of its own, which no other thread writes, so that counting takes no lock and loses
nothing. The functions add up all threads. Nothing is ever set back to zero: `reset_counters()` remembers a base.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

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
    "reset_counters",
    "scope",
    "sync_count",
    "total",
]


@dataclass(slots=True)
class Tally:
    """The seven figures; an encoder owns one, and so does each thread.

    >>> tally = Tally(dispatches=2)
    >>> tally.dispatches += 1
    >>> tally
    Tally(dispatches=3, syncs=0, cmd_bufs=0, barriers=0, barrier_ns=0, auto_barriers=0, auto_concurrent=0)
    """

    dispatches: int = 0
    """Kernel launches, encoded or captured; not counted again at replay."""
    syncs: int = 0
    """Calls that commit and wait."""
    cmd_bufs: int = 0
    """Command buffers made."""
    barriers: int = 0
    """Memory barriers that reached a compute pass."""
    barrier_ns: int = 0
    """Nanoseconds inside the barrier call; only while `profile_barriers` is set."""
    auto_barriers: int = 0
    """Dispatches before which a hazard was found."""
    auto_concurrent: int = 0
    """Dispatches before which none was found."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in _NAMES))

    def __sub__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) - getattr(other, name) for name in _NAMES))


_NAMES = tuple(field.name for field in fields(Tally))


class _Own(threading.local):
    """This thread's tally; it goes with the thread, and its figures stay."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.ending = _Ending(self.tally)
        with _lock:
            _live.append(self.tally)


class _Ending:
    """Reports the end of a thread; may run at any moment, so it takes no lock."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._report = _ended.append

    def __del__(self) -> None:
        self._report(self._tally)


_lock = threading.RLock()
_live: list[Tally] = []
_ended: deque[Tally] = deque()
_past = Tally()  # of threads that have ended
_base = Tally()
_own = _Own()


def mine() -> Tally:
    """The calling thread's tally, to be added to by that thread only; hot paths keep it at hand.

    >>> with scope() as c:
    ...     mine().syncs += 1
    >>> c.syncs
    1
    """
    return _own.tally


def add(**amounts: int) -> None:
    """Counts for the calling thread.

    >>> with scope() as c:
    ...     add(dispatches=2, barriers=1)
    >>> c.dispatches, c.barriers
    (2, 1)
    """
    tally = _own.tally
    for name, amount in amounts.items():
        setattr(tally, name, getattr(tally, name) + amount)


def _sum() -> Tally:
    global _past
    with _lock:
        while _ended:
            tally = _ended.popleft()
            _past += tally
            # By identity: equal figures of another thread are not the same tally.
            del _live[next(i for i, other in enumerate(_live) if other is tally)]
        found = _past
        for tally in _live:
            found += tally
        return found


def total() -> Tally:
    """All threads' figures since the last reset.

    >>> total().dispatches == dispatch_count()
    True
    """
    with _lock:
        return _sum() - _base


def reset_counters() -> None:
    """Sets all seven process-wide figures to zero; scopes and encoders keep theirs.

    >>> add(syncs=3)
    >>> reset_counters()
    >>> sync_count()
    0
    """
    global _base
    with _lock:
        _base = _sum()


class Scope:
    """What was counted since the scope began, up to now or to its end."""

    def __init__(self, read: Callable[[], Tally]) -> None:
        self._read = read
        self._start = read() + Tally()
        self._end: Tally | None = None

    @property
    def tally(self) -> Tally:
        """All figures, as a value of their own."""
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
    """Counts a block: exactly what the calling thread counts inside it, or what all threads do.

    The figures can be read during the block and after it, and `reset_counters()` does not touch them.

    >>> with scope() as c:
    ...     add(dispatches=1)
    ...     print(c.dispatches)
    ...     add(dispatches=1)
    1
    >>> c.dispatches
    2
    """
    own = _own.tally
    found = Scope(_sum if all_threads else lambda: own)
    try:
        yield found
    finally:
        found._close()


def dispatch_count() -> int:
    """Kernel launches encoded or captured.

    >>> before = dispatch_count()
    >>> add(dispatches=3)
    >>> dispatch_count() - before
    3
    """
    return total().dispatches


def sync_count() -> int:
    """Calls that committed and waited.

    >>> before = sync_count()
    >>> add(syncs=3)
    >>> sync_count() - before
    3
    """
    return total().syncs


def cmd_buf_count() -> int:
    """Command buffers made.

    >>> before = cmd_buf_count()
    >>> add(cmd_bufs=3)
    >>> cmd_buf_count() - before
    3
    """
    return total().cmd_bufs


def barrier_count() -> int:
    """Memory barriers that reached a compute pass.

    >>> before = barrier_count()
    >>> add(barriers=3)
    >>> barrier_count() - before
    3
    """
    return total().barriers


def barrier_total_ns() -> int:
    """Nanoseconds spent in barrier calls while `profile_barriers` was set.

    >>> before = barrier_total_ns()
    >>> add(barrier_ns=3)
    >>> barrier_total_ns() - before
    3
    """
    return total().barrier_ns


def auto_barrier_count() -> int:
    """Dispatches that needed a barrier before them.

    >>> before = auto_barrier_count()
    >>> add(auto_barriers=3)
    >>> auto_barrier_count() - before
    3
    """
    return total().auto_barriers


def auto_barrier_concurrent_count() -> int:
    """Dispatches that could run beside those before them.

    >>> before = auto_barrier_concurrent_count()
    >>> add(auto_concurrent=3)
    >>> auto_barrier_concurrent_count() - before
    3
    """
    return total().auto_concurrent
