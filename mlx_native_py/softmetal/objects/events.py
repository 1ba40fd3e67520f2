"""Events and fences: points that command buffers of any queue, and the CPU, can signal and wait for."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .base import Labelled, NSObject
from .process import report
from .values import handler, instance, natural

if TYPE_CHECKING:
    from .device import MTLDevice

_TICK = 0.1  # how often a waiter looks whether it should give up
_POLL_LIMIT = 1 << 32


class MTLEvent(Labelled):
    """A value that only grows, signalled by the device."""

    def __init__(self, device: MTLDevice) -> None:
        self._device = device
        self._changed = threading.Condition(threading.RLock())
        self._value = 0

    def device(self) -> MTLDevice:
        return self._device

    def _signal(self, value: int) -> None:
        with self._changed:
            self._value = max(self._value, value)
            self._changed.notify_all()

    def _wait(self, value: int, seconds: float, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Waits in short steps, so that signals of the operating system and a closing queue are noticed."""
        end = time.monotonic() + seconds
        with self._changed:
            while self._value < value:
                left = end - time.monotonic()
                if left <= 0 or stopped():
                    return False
                self._changed.wait(min(left, _TICK))
        return True


class MTLSharedEventListener(NSObject):
    """Runs notifications on a thread of its own."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @classmethod
    def alloc(cls) -> MTLSharedEventListener:
        return cls()

    @classmethod
    def new(cls) -> MTLSharedEventListener:
        return cls()

    def init(self) -> MTLSharedEventListener:
        return self

    def _post(self, work: Callable[[], object]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=_listen, args=(self._work,), name="soft-metal-listener", daemon=True)
            self._thread.start()
        self._work.put(work)

    def __del__(self) -> None:
        if self.__dict__.get("_thread") is not None:
            self._work.put(None)


def _listen(work: queue.SimpleQueue[Callable[[], object] | None]) -> None:
    while (task := work.get()) is not None:
        try:
            task()
        except BaseException as error:
            report(error)


class MTLSharedEvent(MTLEvent):
    """An event that the CPU can read, signal and wait for too."""

    def __init__(self, device: MTLDevice) -> None:
        super().__init__(device)
        self._waiting: list[tuple[int, MTLSharedEventListener, Callable[..., object]]] = []

    def signaledValue(self) -> int:
        return self._value

    def setSignaledValue_(self, value: int) -> None:
        """Sets the value, also to a smaller one."""
        wanted = natural(value, "value")
        with self._changed:
            self._value = wanted
            self._changed.notify_all()
            self._notify()

    def waitUntilSignaledValue_timeoutMS_(self, value: int, milliseconds: int) -> bool:
        wanted = natural(value, "value")
        return self._wait(wanted, min(natural(milliseconds, "timeoutMS"), _POLL_LIMIT) / 1000)

    def notifyListener_atValue_block_(
        self, listener: MTLSharedEventListener, value: int, block: Callable[[MTLSharedEvent, int], object]
    ) -> None:
        entry = natural(value, "value"), instance(listener, MTLSharedEventListener, "listener"), handler(block, "block")
        with self._changed:
            self._waiting.append(entry)
            self._notify()

    def _signal(self, value: int) -> None:
        super()._signal(value)
        with self._changed:
            self._notify()

    def _notify(self) -> None:
        reached = self._value
        ready = [entry for entry in self._waiting if entry[0] <= reached]
        self._waiting = [entry for entry in self._waiting if entry[0] > reached]
        for _, listener, block in ready:
            listener._post(lambda block=block: block(self, reached))  # type: ignore[misc]


class MTLFence(Labelled):
    """Orders passes of one queue, which run in order here anyway."""

    def __init__(self, device: MTLDevice) -> None:
        self._device = device

    def device(self) -> MTLDevice:
        return self._device
