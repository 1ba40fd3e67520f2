"""One quiet thread for work that nobody waits for; what is left of it when the process ends is dropped."""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

from .process import report

_NICENESS = 10
_EXIT_SECONDS = 1.0

Task = Callable[[], object]


class _Background:
    """Starts its thread with the first task. A forked child has no thread and starts its own."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def add(self, task: Task) -> None:
        if self._closed:
            return
        self._tasks.put(task)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="soft-metal-lanes", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Lets the running task end for a moment; the others are not begun."""
        self._closed = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._tasks.put(lambda: None)
            thread.join(_EXIT_SECONDS)

    def _work(self) -> None:
        with suppress(OSError, AttributeError):  # on Linux a thread has a niceness of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._closed:
            task = self._tasks.get()
            try:
                if not self._closed:
                    task()
            except Exception as error:
                if not self._closed:
                    report(error)


_background = _Background()


def later(task: Task) -> None:
    """Runs `task` in the background, after those that were given before."""
    _background.add(task)


def _renew() -> None:
    global _background
    _background = _Background()


atexit.register(lambda: _background.close())
os.register_at_fork(after_in_child=_renew)
