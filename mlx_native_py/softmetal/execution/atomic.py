"""State changes that an exception or Ctrl-C cannot interrupt halfway.

Python raises exceptions of signal handlers between bytecodes; calls chained inside C have no bytecode between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import starmap
from operator import call
from typing import Any, TypeVar

K = TypeVar("K")

drop = deque[object](maxlen=0).extend
"""Asks for each item and forgets it; `drop(starmap(call, calls))` is `one_step(*calls)`, without a call of Python."""


def one_step(*calls: tuple[Any, ...]) -> None:
    """Makes all these calls of functions written in C, or none of them."""
    drop(starmap(call, calls))


def first(mapping: Mapping[K, object]) -> K | None:
    """The first key, also while other threads change the mapping."""
    return next(map(next, map(iter, (mapping,))), None)
