"""Threads for background compilation; pending tasks are dropped at exit."""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

_EXIT_SECONDS = 1.0

Task = Callable[[], object]


class _Background:
    """A thread pool with one thread per processor, started on demand. Tasks do not raise."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._lock = threading.RLock()
        self._closed = False

    def add(self, task: Task) -> None:
        with self._lock:
            self._tasks.put(task)
            if self._idle < self._tasks.qsize() and len(self._threads) < (os.cpu_count() or 1):
                thread = threading.Thread(target=self._work, name="soft-metal-compile", daemon=True)
                # Without a thread the task waits for the next one that can be started.
                with suppress(RuntimeError):
                    thread.start()
                    self._threads.append(thread)

    def close(self) -> None:
        """Lets running tasks end for a moment; the others are not begun."""
        self._closed = True
        for _ in self._threads:
            self._tasks.put(lambda: None)
        for thread in self._threads:
            thread.join(_EXIT_SECONDS / len(self._threads))

    def _work(self) -> None:
        while not self._closed:
            with self._lock:
                self._idle += 1
            task = self._tasks.get()
            with self._lock:
                self._idle -= 1
            if not self._closed:
                task()


_background = _Background()


def later(task: Task) -> None:
    """Runs `task` in the background, after those that were given before."""
    _background.add(task)


atexit.register(_background.close)
