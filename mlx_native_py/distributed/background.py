"""Background collectives, on a separate thread: MPI makes no progress between its calls.

The thread first waits for the command buffers that use the memory, then for the other ranks.
"""

from __future__ import annotations

import atexit
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from ..encoder.ticket import Ticket
from ..errors import EncoderStateError
from ..memory import transfers
from ..memory.allocation import InFlight
from ..memory.buffer import MlxBuffer
from .group import Group
from .world import init

__all__ = ["Transfer", "begin"]

_CHECK_ALIVE_SECONDS = 0.2  # seconds between checks that other ranks are alive
_waiting: queue.SimpleQueue[Transfer] = queue.SimpleQueue()
_thread: threading.Thread | None = None


class Transfer:
    """A collective in progress. Code that uses its buffers next waits for it automatically and raises its error."""

    def __init__(self, collective: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._collective = collective
        self._arguments = arguments
        self._options = options
        group: Group = options.get("group") or init()
        self._group = group
        used = [each for each in (*arguments, options.get("out")) if isinstance(each, MlxBuffer)]
        self.allocations: frozenset[object] = frozenset(each.allocation for each in used)
        self._before: list[InFlight] = [part for each in used for part in each.allocation.in_flight()]
        self._finished = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        for part in self._before:
            if isinstance(part, Ticket) and not part.is_submitted:
                raise EncoderStateError(f"{self!r}: {part.describe()} uses this memory and is not committed yet")
        for each in used:
            each.allocation.hold(self)

    def done(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self._finished.is_set()

    def in_flight(self) -> tuple[Transfer, ...]:
        """This transfer, while it is pending."""
        return () if self.done() else (self,)

    def wait(self) -> Any:
        """Waits and returns the result; raises its error."""
        if threading.get_ident() == transfers.thread:
            return None
        while not self._finished.wait(_CHECK_ALIVE_SECONDS):
            self._group.require_alive(repr(self))
        transfers.end(self)
        if self._error is not None:
            raise self._error
        return self._result

    def run(self) -> None:
        """Runs it, on the background thread."""
        try:
            for each in self._before:
                each.wait()
            options = {**self._options, "group": self._group.background or self._group}
            self._result = self._collective(*self._arguments, **options)
            transfers.end(self)
        except BaseException as error:
            self._error = error
        self._arguments, self._options, self._before = (), {}, []
        self._finished.set()

    def __repr__(self) -> str:
        return f"<Transfer by {self._collective.__name__}>"


def begin(collective: Callable[..., Any], *arguments: Any, **options: Any) -> Transfer:
    """Starts a collective in the background; all ranks must start the same ones in the same order.

    A command buffer that uses its buffers can be encoded immediately, and is submitted after the collective. numpy
    arrays and new results are valid after `wait()`.

    >>> from mlx_native_py.distributed import all_sum
    >>> transfer = begin(all_sum, x, out=x)
    >>> transfer.wait() is x
    True
    """
    global _thread
    transfer = Transfer(collective, arguments, options)
    if _thread is None:
        _thread = threading.Thread(target=_work, name="mlx-native transfers", daemon=True)
        _thread.start()
        atexit.register(_finish)
    transfers.begin(transfer)
    _waiting.put(transfer)
    return transfer


def _work() -> None:
    transfers.thread = threading.get_ident()
    while True:
        _waiting.get().run()


def _finish() -> None:
    """At exit, waits for pending transfers and prints unreported errors."""
    for each in transfers.under_way:
        try:
            each.wait()
        except Exception as error:
            print(f"{each!r} failed: {error}", file=sys.stderr)
