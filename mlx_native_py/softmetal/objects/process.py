"""What belongs to the process: refusing a device after fork, and reporting errors that no caller can receive."""

from __future__ import annotations

import os

from ...errors import AFTER_FORK
from ..misuse import ForkedProcess

_opened_in: int | None = None


def opening() -> None:
    """Notes that this process uses devices now."""
    global _opened_in
    if _opened_in is None:
        _opened_in = os.getpid()
    refuse_after_fork()


def refuse_after_fork() -> None:
    """Raises in a forked child: the threads and locks behind a device stayed with the parent."""
    if os.getpid() != _opened_in:
        raise ForkedProcess(
            f"Metal was in use in process {_opened_in} before this one was forked from it; {AFTER_FORK}"
        )


class _Carrier:
    """Raises its error where Python itself reports what nobody can catch."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __del__(self) -> None:
        raise self._error


def report(error: BaseException) -> None:
    """Hands an error to `sys.unraisablehook`, from a place where nobody can catch it."""
    _Carrier(error)
