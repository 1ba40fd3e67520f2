"""How often this process came out of a fork: a look at a number, where asking the system for its own is a call."""

from __future__ import annotations

import os

__all__ = ["count"]

count = 0
"""0 in a process that was started, one more in each child than in its parent."""


def _note() -> None:
    global count
    count += 1


os.register_at_fork(after_in_child=_note)
