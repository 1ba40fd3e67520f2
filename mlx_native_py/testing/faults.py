"""Fault injection: makes the n-th allocation, compilation or command buffer fail."""

from __future__ import annotations

import builtins
import errno
import io
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from ..errors import COMMAND_BUFFER_CODES, InvalidArgument

__all__ = ["FaultKind", "InjectedFault", "fail"]

FaultKind = Literal["allocation", "mapping", "compile", "pipeline", "commit", "wait", "read", "thread"]
"""What can fail: memory of the device, pages of the system, the compiler, a pipeline, a command buffer, a wait for an
event (which ends too early), a file of the package or of a model, the start of a thread."""

_PACKAGE = str(Path(__file__).parent.parent)
_NEVER = object()
_BETWEEN = ("pathlib", "tempfile")  # who opens files for others
_STARTS_THREADS = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"  # for threading


class InjectedFault:
    """The outcome of a block: how often the operation was requested, and whether one failed."""

    def __init__(self, nth: int, lasting: bool) -> None:
        self._nth = nth
        self._lasting = lasting
        self._numbers = itertools.count(1)  # asked for by several threads
        self.asked = 0
        """How often it was asked for so far."""
        self.happened = False
        """Whether the n-th was among them, and failed."""

    def is_due(self) -> bool:
        """Counts one more; whether it is the one that fails."""
        number = next(self._numbers)
        self.asked = max(self.asked, number)
        due = number >= self._nth > 0 if self._lasting else number == self._nth
        self.happened |= due
        return due


@contextmanager
def fail(what: FaultKind, nth: int = 1, *, lasting: bool = False, code: int = 1) -> Iterator[InjectedFault]:
    """Makes the n-th operation of a kind fail in the block, on software devices of this process; 0 only counts.

    With `lasting`, all later ones fail too. `code` is the MTLCommandBufferError of a "commit".

    >>> with fail("allocation", lasting=True) as fault:
    ...     try:
    ...         device.zeros(4)
    ...     except MemoryError as error:
    ...         print(str(error)[:33])
    Failed to allocate a buffer of 16
    >>> fault.happened
    True
    """
    if what not in get_args(FaultKind):
        raise InvalidArgument(f"fail: there is no {what!r}; there are: {', '.join(get_args(FaultKind))}")
    from ..memory.shapes import whole

    nth = whole(nth, "fail: nth")
    if code not in COMMAND_BUFFER_CODES:
        raise InvalidArgument(f"fail: code is {code!r}, and Metal has: {', '.join(map(str, COMMAND_BUFFER_CODES))}")
    fault = InjectedFault(nth, lasting)
    with ExitStack() as undo:
        for owner, name, instead in _places(what, code):
            original = getattr(owner, name)
            setattr(owner, name, _failing(fault, original, instead))
            undo.callback(setattr, owner, name, original)
        yield fault


def _failing(fault: InjectedFault, original: Any, instead: Callable[..., Any]) -> Callable[..., Any]:
    """Calls `instead` when the fault is due; _NEVER means that the original should run."""

    def call(*args: Any, **options: Any) -> Any:
        if (instead is not _no_file or _asked_by_the_package()) and fault.is_due():
            answer = instead(*args)
            if answer is not _NEVER:
                return answer
        return original(*args, **options)

    return call


def _places(what: FaultKind, code: int) -> list[tuple[Any, str, Callable[..., Any]]]:
    """The object and attribute to replace, and the replacement."""
    from ..softmetal import compiler_process, memory, pages
    from ..softmetal.execution import queue
    from ..softmetal.execution.commands import Fail
    from ..softmetal.isolation.space import SharedPages
    from ..softmetal.objects.command_buffer import MTLCommandBuffer
    from ..softmetal.objects.device import MTLDevice
    from ..softmetal.objects.events import MTLSharedEvent
    from ..softmetal.objects.foundation import NSError

    def no_pipeline(*_: Any) -> Any:
        return None, None, NSError("AGXMetal", 3, "injected by fail: no pipeline")

    def stop(commands: Any) -> Any:
        commands.state.commands.insert(0, Fail(code))
        return _NEVER

    places: dict[str, list[tuple[Any, str, Callable[..., Any]]]] = {
        "allocation": [
            (MTLDevice, name, _nothing)
            for name in ("newBufferWithLength_options_", "newTextureWithDescriptor_", "newHeapWithDescriptor_")
        ],
        "mapping": [
            (source, name, instead)
            for source in (pages.PrivatePages, pages.FilePages, SharedPages)
            for name, instead in (("reserve", _nothing), ("open", _refused), ("close", _refused))
            if name in vars(source)
        ],
        "compile": [(compiler_process, "_run", _killed)],
        "pipeline": [(MTLDevice, "newComputePipelineStateWithDescriptor_options_reflection_error_", no_pipeline)],
        "commit": [(MTLCommandBuffer, "commit", stop)],
        "wait": [(MTLSharedEvent, "waitUntilSignaledValue_timeoutMS_", _refused)],
        "read": [(builtins, "open", _no_file), (io, "open", _no_file)],
        "thread": [
            (threading, _STARTS_THREADS, _no_thread),
            *((module, "start_new_thread", _no_thread) for module in (queue, memory)),
        ],
    }
    return places[what]


def _asked_by_the_package() -> bool:
    """Whether the call comes from this package, directly or through pathlib, which is a package in later Pythons."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(_PACKAGE)


def _nothing(*_: Any) -> None:
    return None


def _refused(*_: Any) -> bool:
    return False


def _killed(*_: Any) -> int:
    return -signal.SIGKILL


def _no_file(path: Any, *_: Any) -> Any:
    raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


def _no_thread(*_: Any) -> Any:
    raise RuntimeError("can't start new thread")
