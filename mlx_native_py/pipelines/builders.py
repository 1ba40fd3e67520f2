"""Threads that compile kernels, one per core."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

__all__ = ["Builders"]

T = TypeVar("T")


class Builders:
    """Runs tasks on all cores; leaving the block waits for them, and after an exception drops those not begun."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="kernel-builder")

    def __enter__(self) -> Builders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=kind is not None)

    def begin(self, task: Callable[[], T]) -> Future[T]:
        """Starts a task, or runs it here if the system has no thread for it; another thread may then run it too."""
        try:
            return self._threads.submit(task)
        except RuntimeError:
            return _done(task)


def _done(task: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    try:
        future.set_result(task())
    except Exception as error:
        future.set_exception(error)
    return future
