"""What `MLX_PROFILE_CB=1` and `MLX_PROFILE_DISPATCH=1` do for a process: a profile of all of it, printed at its end."""

from __future__ import annotations

import atexit
import sys
import threading
from typing import TYPE_CHECKING

from .. import settings

if TYPE_CHECKING:
    from .profile import Profile

__all__ = ["follow_environment"]

_ROWS = 30
_lock = threading.Lock()
_running: list[Profile] = []


def follow_environment() -> None:
    """Starts a profile of the process, if the environment asks for one and none is running."""
    asked = settings.environment()
    if not (asked.profile_cb or asked.profile_dispatch):
        return
    from .profile import Profile  # nobody else pays for its import

    with _lock:
        if not _running:
            _running.append(Profile("dispatch" if asked.profile_dispatch else "cb").start())
            atexit.register(_print_tables, _running[0])


def _print_tables(running: Profile) -> None:
    """On standard error, since standard output is the program's."""
    running.stop()
    if running.records and sys.stderr is not None:
        for by in ("label", "kernel"):
            print(f"\n{running.table(by, limit=_ROWS).shown(sys.stderr)}", file=sys.stderr)
