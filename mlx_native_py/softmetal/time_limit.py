"""A limit of time for work that this process does itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from threading import Event, Thread
from typing import TypeVar

from .compiler_process import CompileLimits, LimitExceeded, remaining

T = TypeVar("T")
_ATTEMPTS = 10
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)


class _Stopped(SystemExit):
    """Ends the work, whatever it is doing."""


def stopped_in_time(limits: CompileLimits, work: Callable[[], T]) -> T:
    """Does `work` in the time that its compilation has left; it must be harmless to end anywhere.

    A source can make any pass over it slow, and nobody could end one in the thread that asks.
    """
    results: list[T] = []
    raised: list[BaseException] = []
    over = Event()  # not the thread's own end: an interrupted `join` takes a running thread for one that has ended
    thread = Thread(target=partial(copy_context().run, _do, work, results, raised, over), daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no threads are left
        return work()
    try:
        over.wait(min(limits.seconds, remaining()))
    finally:
        for _ in range(_ATTEMPTS):
            if over.is_set():
                break
            _raise_in(thread.ident or 0, _Stopped)  # finalisers swallow it
            over.wait(1.0 / _ATTEMPTS)
    if results:
        return results[0]
    if raised and not isinstance(raised[0], _Stopped):
        raise raised[0]
    raise LimitExceeded(
        f"the translation of the source did not end within {limits.seconds:g} s; MLX_SOFT_COMPILE_TIMEOUT allows more"
    )


def _do(work: Callable[[], T], results: list[T], raised: list[BaseException], over: Event) -> None:
    try:
        results.append(work())
    except BaseException as reason:
        raised.append(reason)
    finally:
        over.set()
