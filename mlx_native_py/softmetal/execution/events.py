"""Events: monotonic values, waiting threads and notifications."""

from __future__ import annotations

import threading
import time
from bisect import insort
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol
from weakref import ref

from ..process import report
from .atomic import one_step

TICK = 0.1  # how often a waiter looks for itself whether it should go on or give up
Task = Callable[[], object]


class Runner(Protocol):
    """A queue that can run work on a waiting thread to reach a value."""

    def run_next(self) -> bool: ...
    def nudge(self) -> None: ...
    def refuse_endless(self, event: EventState, value: int) -> None: ...


class Waiters:
    """Sleeping threads; each polls after a tick, so a lost wake-up costs only that."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: list[Callable[[object], None]] = []

    def wake(self) -> None:
        for call in tuple(self.calls):
            call(None)

    def wait(self, reached: Callable[[], bool], seconds: float, stopped: Callable[[], bool]) -> bool:
        """Whether `reached` came true in time, before `stopped` did."""
        end = time.monotonic() + seconds
        inbox: SimpleQueue[object] = SimpleQueue()
        self.calls.append(inbox.put)
        try:
            while not reached():
                left = end - time.monotonic()
                if left <= 0 or stopped():
                    return False
                sleep(inbox, min(left, TICK))
            return True
        finally:
            with suppress(ValueError):
                self.calls.remove(inbox.put)


def sleep(inbox: SimpleQueue[object], seconds: float | None) -> None:
    """Until somebody puts something, or for a while."""
    with suppress(Empty):
        inbox.get(timeout=seconds)


def never() -> bool:
    """Nothing stops the wait."""
    return False


class Listener:
    """A thread that runs notifications one after the other."""

    def __init__(self, owner: object) -> None:
        self.tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._owner = ref(owner, partial(self.tasks.put, None))  # which ends the thread
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(
                target=_listen, args=(self.tasks, self._owner), name="soft-metal-listener", daemon=True
            )
            thread.start()
            self._thread = thread


def _listen(tasks: SimpleQueue[Task | None], _: ref[object]) -> None:
    while (task := tasks.get()) is not None:
        try:
            task()
        except BaseException as error:
            report(error)


class Notification:
    """A handler and the value that it waits for."""

    __slots__ = ("block", "listener", "value")

    def __init__(self, value: int, listener: Listener, block: Callable[[int], object]) -> None:
        self.value = value
        self.listener = listener
        self.block = block

    def task(self, reached: int) -> Task:
        return lambda: self.block(reached)


class EventState:
    """A monotonic value, unless the CPU sets it. Each change is one C call and cannot be interrupted."""

    __slots__ = ("clock", "label", "notifications", "runner", "values", "waiters")

    def __init__(self) -> None:
        self.label: str | None = None
        self.clock: dict[int, int] = {}  # what came before its signals, where checked mode wants to know
        self.runner: Runner | None = None  # the queue whose command buffer will signal it
        self.waiters = Waiters()
        self.notifications: list[Notification] = []
        self.values = [0]  # the last one counts

    @property
    def value(self) -> int:
        return self.values[-1]

    def signal(self, value: int) -> None:
        """Raises the value, by whichever of several threads."""
        insort(self.values, value)
        del self.values[:-1]
        if self.waiters.calls or self.notifications:
            self._tell()

    def set(self, value: int) -> None:
        """Sets the value, also to a smaller one."""
        self.values[:] = [value]
        self._tell()

    def wait(self, value: int, seconds: float, stopped: Callable[[], bool] = never) -> bool:
        """Whether the value was reached in time."""
        return self.value >= value or self.waiters.wait(lambda: self.value >= value, seconds, stopped)

    def notify(self, notification: Notification) -> None:
        """Has it told once when the value is reached."""
        notification.listener.start()
        self.notifications.append(notification)
        self._tell()

    def _tell(self) -> None:
        self.waiters.wake()
        for each in tuple(self.notifications):
            if each.value <= self.value:
                with suppress(ValueError):  # another thread was faster
                    one_step((self.notifications.remove, each), (each.listener.tasks.put, each.task(self.value)))
