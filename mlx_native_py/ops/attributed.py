"""Attributes kernel launches to ops, so that profiles can group dispatches by op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from ..encoder import CommandEncoder, Dispatch, Recorder
from ..hazards.tracker import touched
from ..profiling import op_calls
from .refusals import no_encoder

__all__ = ["attributed"]

F = TypeVar("F", bound=Callable[..., Any])


def attributed(function: F, flops: Callable[..., int] | None, functions: Sequence[str]) -> F:
    """Wraps an op so that its launches are attributed to it; replays of recorded calls skip this.

    `functions` of `fn` are named to callers without an encoder.
    """

    @wraps(function)
    def run(enc: Any, *args: Any, **options: Any) -> Any:
        log = _log(enc)
        if log is None:
            raise no_encoder(enc, functions)
        before = len(log)
        answer = function(enc, *args, **options)
        if log is _log(enc) and len(log) > before:
            count = 0 if flops is None or args else flops(answer, **options)
            op_calls.note(function.__name__, list(_keys(log[before:])), count)
        return answer

    return cast("F", run)


def _log(enc: Any) -> list[Any] | None:
    """The log of an encoder or a recorder; None for anything else."""
    if isinstance(enc, CommandEncoder):
        return enc.mem_ranges.log
    if isinstance(enc, Recorder):
        return enc.nodes
    return None


def _keys(entries: list[Any]) -> Iterator[op_calls.Key]:
    for entry in entries:
        if isinstance(entry, Dispatch):
            yield op_calls.key_of(entry.pipeline.label, *entry.spans)
        elif isinstance(entry, tuple) and not isinstance(entry[0], list):
            yield op_calls.key_of(entry[0].label, *touched(entry))
