"""Hazards as bits: each distinct range that dispatches read or write has two, so that one `&` finds a conflict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..encoder import CapturedDispatch
from ..hazards.ranges import Memory, Span
from .order import is_annotated

__all__ = ["Masks", "hazard_masks"]


@dataclass(frozen=True, slots=True)
class Masks:
    """For each dispatch, the bits that it sets, and the bits of others that it must not run beside.

    Bit 2n says that range n is read, bit 2n + 1 that it is written. Of the last two, `before` stands for whatever was
    encoded earlier, and `unknown` for a dispatch that does not say what it writes, which runs beside nothing.
    """

    each: list[tuple[int, int]]
    before: int
    unknown: int


def hazard_masks(nodes: Sequence[CapturedDispatch]) -> Masks:
    """Bits for all ranges of the dispatches."""
    numbers: dict[Span, int] = {}
    for node in nodes:
        for each in (*node.reads, *node.writes):
            numbers.setdefault(each.span, len(numbers))
    read_bits, written_bits = _overlapping(numbers)
    before, unknown = 1 << 2 * len(numbers), 2 << 2 * len(numbers)
    found = []
    for node in nodes:
        reads, writes = ([numbers[each.span] for each in ranges] for ranges in (node.reads, node.writes))
        add = _union(1 << 2 * n for n in reads) | _union(2 << 2 * n for n in writes)
        conflict = _union(written_bits[n] for n in (*reads, *writes)) | _union(read_bits[n] for n in writes)
        found.append((add, conflict | unknown) if is_annotated(node) else (add | unknown, -1))
    return Masks(found, before, unknown)


def _union(masks: Iterable[int]) -> int:
    whole = 0
    for mask in masks:
        whole |= mask
    return whole


def _overlapping(numbers: dict[Span, int]) -> tuple[list[int], list[int]]:
    """For each range, the bits for reading and for writing any range that shares bytes with it."""
    shared = [0] * len(numbers)
    for stretch in _by_place(numbers):
        live: list[Span] = []
        for span in stretch:
            live = [other for other in live if other[2] > span[1]]
            for other in live:
                shared[numbers[span]] |= 1 << 2 * numbers[other]
                shared[numbers[other]] |= 1 << 2 * numbers[span]
            shared[numbers[span]] |= 1 << 2 * numbers[span]
            live.append(span)
    return shared, [mask << 1 for mask in shared]


def _by_place(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Spans that can share bytes, in the order of their first byte; memories over the same bytes count as one."""
    homes: dict[Memory, list[Span]] = {}
    for span in spans:
        memory = span[0]
        if memory in homes:
            homes[memory].append(span)
            continue
        # One that lies over several others joins all of them.
        near = [homes[other] for alias in memory.aliases if (other := alias()) in homes]
        joined = [span, *(each for home in {id(home): home for home in near}.values() for each in home)]
        homes |= {each[0]: joined for each in joined}
    for stretch in {id(found): found for found in homes.values()}.values():
        yield sorted(stretch, key=lambda span: span[1])
