"""A limit of time for work that this process does itself."""

from __future__ import annotations

import ctypes
import gc
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
    heard = Event()  # until then the thread keeps its number, which another one may get
    thread = Thread(target=partial(copy_context().run, _do, work, results, raised, over, heard), daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no threads are left
        return work()
    try:
        over.wait(min(limits.seconds, remaining()))
    finally:
        try:
            if not over.is_set():
                _stop(thread.ident or 0, over)
        finally:
            heard.set()
    if results:
        return results[0]
    if raised and not isinstance(raised[0], _Stopped):
        raise raised[0]
    raise LimitExceeded(
        f"the translation of the source did not end within {limits.seconds:g} s; MLX_SOFT_COMPILE_TIMEOUT allows more"
    )


def _stop(thread: int, over: Event) -> None:
    """Raises until the work ends: finalisers and callbacks of the garbage collector swallow it and complain."""
    collects = gc.isenabled()
    gc.disable()
    try:
        for _ in range(_ATTEMPTS):
            if over.wait(1.0 / _ATTEMPTS):
                return
            _raise_in(thread, _Stopped)
    finally:
        if collects:
            gc.enable()


def _do(work: Callable[[], T], results: list[T], raised: list[BaseException], over: Event, heard: Event) -> None:
    try:
        results.append(work())
    except BaseException as reason:
        raised.append(reason)
    finally:
        over.set()
        heard.wait()
