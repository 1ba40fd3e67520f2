"""Process-wide concerns: refusal after a fork, and reporting of errors that no caller can receive."""

from __future__ import annotations

import os

from ..errors import AFTER_FORK
from .misuse import ForkedProcess

_opened_in: int | None = None
_forked = False


def opening() -> None:
    """Notes that this process uses devices now."""
    global _opened_in
    refuse_after_fork()
    _opened_in = os.getpid()


def refuse_after_fork() -> None:
    """Raises in a forked child: the threads and locks behind a device stayed with the parent."""
    if _forked:
        raise ForkedProcess(
            f"Metal was in use in process {_opened_in} before this one was forked from it; {AFTER_FORK}"
        )


def is_forked() -> bool:
    """Whether devices were in use when this process was forked."""
    return _forked


def _note_fork() -> None:
    global _forked
    _forked = _opened_in is not None


os.register_at_fork(after_in_child=_note_fork)


class _Carrier:
    """Raises its error where Python reports uncatchable exceptions."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


def report(error: BaseException) -> None:
    """Hands an error to `sys.unraisablehook`, from a place where nobody can catch it."""
    _Carrier(error)
