"""Collectives as spans on the track "MPI" of running profiles, beside the GPU's command buffers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..profiling import observer

__all__ = ["as_span"]

Collective = TypeVar("Collective", bound=Callable[..., Any])


def as_span(collective: Collective) -> Collective:
    """The same function; while a profile runs, each call leaves its time and bytes there."""

    @wraps(collective)
    def told(*arguments: Any, **options: Any) -> Any:
        if not observer.watchers:
            return collective(*arguments, **options)
        start = time.monotonic_ns()
        result = collective(*arguments, **options)
        nbytes = int(getattr(result, "nbytes", 0))
        observer.add_span("MPI", collective.__name__, start, time.monotonic_ns(), bytes=nbytes)
        return result

    return told  # type: ignore[return-value]
