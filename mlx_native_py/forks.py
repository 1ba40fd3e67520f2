"""Forks of this process: how many there were, and locks that nobody holds in a forked child."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING
from weakref import ref

__all__ = ["Lock", "count"]

count = 0
"""0 in a process that was not forked, one more in each child than in its parent."""


class Lock:
    """A lock for `with` blocks. Finalisers and signal handlers may take it again in the thread that holds it.

    A forked child gets a free one, since the thread that held it stayed with the parent.
    """

    # Of C functions: Ctrl-C cannot come between the lock and the block.
    __slots__ = ("__enter__", "__exit__", "__weakref__")

    if TYPE_CHECKING:

        def __enter__(self) -> bool: ...
        def __exit__(self, *_: object) -> None: ...

    def __init__(self) -> None:
        self.renew()
        _locks.add(ref(self, _locks.discard))

    def renew(self) -> None:
        """Makes it free; who holds it still lets go of the old one."""
        lock = threading.RLock()
        self.__enter__, self.__exit__ = lock.__enter__, lock.__exit__  # type: ignore[assignment, method-assign]


_locks: set[ref[Lock]] = set()


def _note() -> None:
    global count
    count += 1
    for each in list(_locks):
        if (lock := each()) is not None:
            lock.renew()


os.register_at_fork(after_in_child=_note)
