"""Attributes kernel launches to ops, so that profiles can group dispatches by op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

from ..encoder import CommandEncoder, Dispatch, Recorder
from ..errors import InvalidArgument
from ..hazards.tracker import touched
from ..profiling import op_calls

__all__ = ["attributed"]

F = TypeVar("F", bound=Callable[..., Any])


def attributed(function: F, flops: Callable[..., int] | None) -> F:
    """Wraps an op so that its launches are attributed to it; replays of recorded calls skip this."""

    @wraps(function)
    def run(enc: Any, *args: Any, **options: Any) -> Any:
        log = _log(enc)
        before = len(log)
        answer = function(enc, *args, **options)
        if log is _log(enc) and len(log) > before:
            count = 0 if flops is None or args else flops(answer, **options)
            op_calls.note(function.__name__, list(_keys(log[before:])), count)
        return answer

    return cast("F", run)


def _log(enc: Any) -> list[Any]:
    """The log of an encoder or a recorder."""
    if isinstance(enc, CommandEncoder):
        return enc.mem_ranges.log
    if isinstance(enc, Recorder):
        return enc.nodes
    raise InvalidArgument(f"the first argument is {enc!r}, expected device.command_encoder() or a capture's encoder")


def _keys(entries: list[Any]) -> Iterator[op_calls.Key]:
    for entry in entries:
        if isinstance(entry, Dispatch):
            yield op_calls.key_of(entry.pipeline.label, *entry.spans)
        elif isinstance(entry, tuple) and not isinstance(entry[0], list):
            yield op_calls.key_of(entry[0].label, *touched(entry))
