"""Records collectives as spans on the track "MPI" of running profiles."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from ..profiling import observer

__all__ = ["as_span"]

P = ParamSpec("P")
R = TypeVar("R")


def as_span(collective: Callable[P, R], name: str = "") -> Callable[P, R]:
    """Wraps a collective so that running profiles record the time and bytes of each call."""
    called = name or collective.__name__

    @wraps(collective)
    def told(*arguments: P.args, **options: P.kwargs) -> R:
        if not observer.watchers:
            return collective(*arguments, **options)
        start = time.monotonic_ns()
        result = collective(*arguments, **options)
        nbytes = int(getattr(result, "nbytes", 0))
        observer.add_span("MPI", called, start, time.monotonic_ns(), bytes=nbytes)
        return result

    return told
