"""The thread behind a queue: runs command buffers in the order they were enqueued, and counts the queue's slots."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakSet

from .. import constants as c
from ..misuse import QueueFull
from .process import report

if TYPE_CHECKING:
    from .command_buffer import MTLCommandBuffer

_TICK = 0.1
_EXIT_SECONDS = 1.0
_workers: WeakSet[Worker] = WeakSet()
_started_in = os.getpid()


class Worker:
    """Never refers to its queue, so that a dropped queue ends it."""

    def __init__(self, slots: int, patience: float, name: str) -> None:
        self._slots = slots
        self._patience = patience
        self._name = name
        self._taken = 0
        self._moved = time.monotonic()
        self._running = False
        self._thread: threading.Thread | None = None
        self._order: deque[MTLCommandBuffer] = deque()
        self._dropped: deque[float] = deque()  # when command buffers went that were never committed
        # Reentrant, because the garbage collector may close a queue anywhere.
        self._changed = threading.Condition(threading.RLock())
        self.closed = False
        self.blocked = False  # waiting for an event, so nobody can say when it goes on
        _workers.add(self)

    def take_slot(self) -> None:
        """Waits for a free slot; raises when nothing has moved for too long, which would be a deadlock on Metal."""
        with self._changed:
            begin = time.monotonic()
            self._take_back()
            while self._taken >= self._slots:
                idle_since = max(begin, self._moved)
                stuck = not self._running or self.blocked or self.is_current_thread()
                if stuck and time.monotonic() - idle_since > self._patience:
                    raise QueueFull(self._diagnosis())
                self._changed.wait(min(_TICK, self._patience))
                self._take_back()
            self._taken += 1

    def give_slot(self) -> None:
        with self._changed:
            self._taken -= 1
            self._moved = time.monotonic()
            self._changed.notify_all()

    def drop_slot(self) -> None:
        """For the garbage collector, which may run while this thread, or one that it waits for, holds any lock."""
        self._dropped.append(time.monotonic())

    def _take_back(self) -> None:
        while self._dropped:
            self._moved = max(self._moved, self._dropped.popleft())
            self._taken -= 1

    def enqueue(self, buffer: MTLCommandBuffer) -> None:
        with self._changed:
            self._order.append(buffer)

    def commit(self) -> None:
        """Lets the thread look again."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def has_stopped(self) -> bool:
        """Whether what waits in the queue will never run."""
        return self.closed and not self._running

    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def join(self, seconds: float) -> None:
        if self._thread is not None and not self.is_current_thread():
            self._thread.join(seconds)

    def _work(self) -> None:
        while self._step():
            pass

    def _step(self) -> bool:
        """Runs the next command buffer; a call of its own, so that nothing keeps a finished one alive."""
        with self._changed:
            while not (self._order and self._order[0]._status >= c.MTLCommandBufferStatusCommitted):
                if self.closed:
                    return False
                self._changed.wait()
            if self.closed:
                return False
            buffer = self._order.popleft()
            self._running = True
        try:
            buffer._run()
        except BaseException as error:  # the next command buffers must not wait for ever
            report(error)
        finally:
            self._running = False
            self.give_slot()
        return True

    def _diagnosis(self) -> str:
        waiting = len(self._order)
        committed = sum(buffer._status >= c.MTLCommandBufferStatusCommitted for buffer in self._order)
        state = "waits for an event that nobody signals" if self.blocked else "is idle"
        if self.is_current_thread():
            state = "is in the handler that asks for one more"
        return (
            f"all {self._slots} command buffers of {self._name} are taken and its worker {state}: "
            f"{self._taken - waiting - self._running} not enqueued, {waiting - committed} enqueued only, "
            f"{committed} committed behind them. Commit or drop some; on Metal this call would wait for ever"
        )


def _finish_all() -> None:
    """At exit, lets running work end for a moment; what is left dies with the process.

    In a forked child the threads are gone and their locks may be taken for ever.
    """
    if _started_in != os.getpid():
        return
    end = time.monotonic() + _EXIT_SECONDS
    for worker in list(_workers):
        worker.close()
    for worker in list(_workers):
        worker.join(max(0.0, end - time.monotonic()))


atexit.register(_finish_all)
