"""What belongs to the process: refusing a device after fork, and reporting errors that no caller can receive."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

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
            "software Metal was in use before a fork and cannot go on in the child; start processes by the spawn method"
        )


def report(error: BaseException, where: object) -> None:
    """Hands an error to `sys.unraisablehook`, from a place where nobody can catch it."""
    sys.unraisablehook(
        SimpleNamespace(
            exc_type=type(error),
            exc_value=error,
            exc_traceback=error.__traceback__,
            err_msg="Exception ignored in software Metal",
            object=where,
        )
    )
