"""Parallel work on several threads, or on this one if no threads can be started."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def on_threads(function: Callable[[S], T], items: Iterable[S], most: int | None = None) -> list[T]:
    """What the function makes of each item, in their order and in this context; it may be called for one again."""
    given = list(items)
    contexts = [copy_context() for _ in given]  # a context is one thread's at a time
    try:
        with ThreadPoolExecutor(most) as pool:
            return list(pool.map(lambda context, each: context.run(function, each), contexts, given))
    except RuntimeError as refused:
        if "start new thread" not in str(refused):
            raise
    return [function(each) for each in given]
