"""A limit of time for work that this process does itself."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Lock, Thread, get_ident
from typing import Generic, TypeVar

from .compiler_process import CompileLimits, LimitExceeded, remaining

T = TypeVar("T")
_ATTEMPTS = 10
_PATIENCE_S = 10.0  # far more than all attempts take
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)


class _Stopped(SystemExit):
    """Ends the work, whatever it is doing."""


def stopped_in_time(limits: CompileLimits, work: Callable[[], T]) -> T:
    """Does `work` in the time that its compilation has left; it must be harmless to end anywhere.

    A source can make any pass over it slow, and nobody could end one in the thread that asks.
    """
    doing = _Doing(work)
    thread = Thread(target=copy_context().run, args=(doing.do,), daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no threads are left
        return work()
    try:
        doing.over.acquire(timeout=min(limits.seconds, remaining()))
    finally:
        doing.stop(thread)
    if doing.results:
        return doing.results[0]
    if doing.raised and not isinstance(doing.raised[0], _Stopped):
        raise doing.raised[0]
    raise LimitExceeded(
        f"the translation of the source did not end within {limits.seconds:g} s; MLX_SOFT_COMPILE_TIMEOUT allows more"
    )


def _taken() -> Lock:
    lock = Lock()
    lock.acquire()
    return lock


@dataclass
class _Doing(Generic[T]):
    """Work on a thread of its own, which stays until nobody will stop it any more: the next could have its number."""

    work: Callable[[], T]
    results: list[T] = field(default_factory=list)
    raised: list[BaseException] = field(default_factory=list)
    inside: list[int] = field(default_factory=list)  # the thread, once it can be stopped
    ended: list[bool] = field(default_factory=list)
    # Released once. What is raised in the middle of an Event leaves it locked.
    over: Lock = field(default_factory=_taken)
    free: Lock = field(default_factory=_taken)

    def do(self) -> None:
        with suppress(_Stopped):  # it may come late
            self._do()

    def _do(self) -> None:
        self.inside.append(get_ident())
        try:
            try:
                self.results.append(self.work())
            except BaseException as reason:
                self.raised.append(reason)
        finally:
            self.ended.append(True)
            self.over.release()
            self.free.acquire(timeout=_PATIENCE_S)

    def stop(self, thread: Thread) -> None:
        try:
            if not self.ended:
                with _uncollected():
                    self._raise(thread)
        finally:
            self.free.release()

    def _raise(self, thread: Thread) -> None:
        for _ in range(_ATTEMPTS):
            if self.over.acquire(timeout=1.0 / _ATTEMPTS) or self.ended or not thread.is_alive():
                return
            for ident in self.inside:
                _raise_in(ident, _Stopped)  # finalisers swallow it


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage is collected in the block: callbacks of the collector swallow what is raised in them, and complain."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
