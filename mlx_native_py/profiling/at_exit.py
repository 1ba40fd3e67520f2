"""Process-wide profiles: `MLX_PROFILE_CB=1` and `MLX_PROFILE_DISPATCH=1` print tables at exit."""

from __future__ import annotations

import atexit
import sys
from typing import TYPE_CHECKING, TextIO

from .. import settings
from ..forks import Lock

if TYPE_CHECKING:
    from .profile import Profile

__all__ = ["follow_environment", "print_tables"]

_ROWS = 30
_lock = Lock()
_running: list[Profile] = []


def follow_environment() -> None:
    """Starts a profile of the process if the environment asks for one and none is running."""
    asked = settings.environment()
    if not (asked.profile_cb or asked.profile_dispatch):
        return
    from .profile import Profile  # nobody else pays for its import

    with _lock:
        if not _running:
            _running.append(Profile("dispatch" if asked.profile_dispatch else "cb").start())
            atexit.register(_finish, _running[0])


def print_tables(profiled: Profile, out: TextIO) -> None:
    """Prints the profile by label of the command buffer and by kernel."""
    for by in ("label", "kernel") if profiled.records else ():
        print(f"\n{profiled.table(by, limit=_ROWS).shown(out)}", file=out)


def _finish(running: Profile) -> None:
    """Prints on standard error, because standard output belongs to the program."""
    running.stop()
    if sys.stderr is not None:
        print_tables(running, sys.stderr)
