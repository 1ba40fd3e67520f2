"""Accesses outside the declared `reads` and `writes` of a dispatch, from which its barriers are derived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from .dispatch import Footprint
from .errors import UndeclaredAccess
from .intervals import Intervals, Span, within


class Declarations(Protocol):
    """The addresses that a dispatch declares to read and write."""

    @property
    def reads(self) -> Sequence[Span]: ...
    @property
    def writes(self) -> Sequence[Span]: ...


def undeclared(
    kernel: str,
    declared: Declarations,
    touched: Footprint,
    bound: Sequence[Span],
    locate: Callable[[int], tuple[str, int]],
) -> list[UndeclaredAccess]:
    """Writes must be declared, and so must reads, but for those of what the dispatch itself has written.

    Only the memory of what is bound counts: what kernels reach by address is declared by useResource.
    """
    own = touched.writes | touched.atomic_writes
    writes = _without(own, declared.writes)
    reads = _without(_without(touched.reads | touched.atomic_reads, declared.reads), own.spans())
    accesses = []
    for verb, more in (("writes", writes), ("reads", reads)):
        for low, high in within(more, bound).spans()[:1]:
            buffer, start = locate(low)
            accesses.append(UndeclaredAccess(kernel, verb, buffer, (low - start, high - start)))
    return accesses


def _without(bytes_: Intervals, spans: Sequence[Span]) -> Intervals:
    for span in spans:
        bytes_ = bytes_.without(span)
    return bytes_
