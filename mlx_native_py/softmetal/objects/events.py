"""Events and fences, which command buffers and the CPU can signal and wait for."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..execution.events import EventState, Listener, Notification
from ..values import handler, instance, natural
from .base import Labelled, NSObject
from .owned import DeviceObject, Owned

_POLL_LIMIT = 1 << 32


class MTLEvent(Owned, Labelled):
    """A monotonic value, signalled by the device."""

    def __init__(self, device: DeviceObject) -> None:
        super().__init__(device)
        self.state = EventState()
        self._timeline = device.state.timeline

    def setLabel_(self, label: str | None) -> None:
        super().setLabel_(label)
        self.state.label = self._label


class MTLSharedEventListener(NSObject):
    """Runs notifications on its own thread."""

    def __init__(self) -> None:
        self.state = Listener(self)

    @classmethod
    def alloc(cls) -> MTLSharedEventListener:
        return cls()

    @classmethod
    def new(cls) -> MTLSharedEventListener:
        return cls()

    def init(self) -> MTLSharedEventListener:
        return self


class MTLSharedEvent(MTLEvent):
    """An event that the CPU can also read, signal and wait for."""

    def signaledValue(self) -> int:
        value = self.state.value
        self._seen()
        return value

    def _seen(self) -> None:
        """The CPU knows what came before."""
        if self._timeline is not None:
            self._timeline.saw(self.state.clock)

    def setSignaledValue_(self, value: int) -> None:
        """Sets the value, also to a smaller one."""
        wanted = natural(value, "value")
        if self._timeline is not None:
            self._timeline.signal(self.state)
        self.state.set(wanted)

    def waitUntilSignaledValue_timeoutMS_(self, value: int, milliseconds: int) -> bool:
        """Runs short work on this thread where that brings the value about."""
        wanted = value if value.__class__ is int and 0 <= value < _POLL_LIMIT else natural(value, "value")
        usual = milliseconds.__class__ is int and 0 <= milliseconds < _POLL_LIMIT
        limit, state = milliseconds if usual else natural(milliseconds, "timeoutMS"), self.state
        values = state.values
        if values[-1] < wanted:
            runner = state.runner if limit else None
            # Mostly one run is enough, and the clock need not be asked.
            if (runner is None or not runner.run_next() or values[-1] < wanted) and not self._bring_about(
                wanted, min(limit, _POLL_LIMIT) / 1000
            ):
                return False
        if self._timeline is not None:
            self._seen()
        return True

    def _bring_about(self, wanted: int, seconds: float) -> bool:
        """Whether the value was reached in time, by whichever thread."""
        state = self.state
        end, runner = time.monotonic() + seconds, state.runner
        if runner is not None and seconds:
            runner.refuse_endless(state, wanted)
            while time.monotonic() < end and runner.run_next():
                if state.value >= wanted:
                    return True
            runner.nudge()
        return state.wait(wanted, end - time.monotonic())

    def notifyListener_atValue_block_(
        self, listener: MTLSharedEventListener, value: int, block: Callable[[MTLSharedEvent, int], object]
    ) -> None:
        wanted, told = natural(value, "value"), instance(listener, MTLSharedEventListener, "listener")
        tell = handler(block, "block")

        def call(reached: int) -> None:
            self._seen()
            tell(self, reached)

        self.state.notify(Notification(wanted, told.state, call))


class MTLFence(Owned, Labelled):
    """Orders passes of one queue, which run in order here anyway; checked mode asks for it where Metal does."""

    passes: frozenset[int] = frozenset()  # those that came before its last update
