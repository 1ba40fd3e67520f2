"""Runs calls on a worker thread, so that the main thread stays interruptible by Ctrl-C."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

__all__ = ["run_in_worker"]

_calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
_thread: threading.Thread | None = None


class _Call:
    def __init__(self, function: Callable[[], Any]) -> None:
        self.function, self.context = function, copy_context()
        self.done = threading.Lock()
        self.done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.context.run(self.function)
        except BaseException as error:
            self.error = error
        self.done.release()


def run_in_worker(function: Callable[[], Any]) -> Any:
    """The result of `function`, called on the worker thread with this thread's settings.

    Ctrl-C interrupts only the wait.
    """
    global _thread
    if threading.current_thread() is not threading.main_thread():
        return function()
    if _thread is None:
        _thread = threading.Thread(target=_work, name="mlx-native steps", daemon=True)
        _thread.start()
    call = _Call(function)
    _calls.put(call)
    call.done.acquire()
    if call.error is not None:
        raise call.error
    return call.result


def _work() -> None:
    while True:
        _calls.get().run()
