"""How many times this process has been forked; cheaper to check than the process id."""

from __future__ import annotations

import os

__all__ = ["count"]

count = 0
"""0 in a process that was not forked, one more in each child than in its parent."""


def _note() -> None:
    global count
    count += 1


os.register_at_fork(after_in_child=_note)
