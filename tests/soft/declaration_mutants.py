"""Declarations of dispatches with a range dropped or cut short, and which of these change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlx_native_py.hazards.ranges import Span
from mlx_native_py.softmetal.checked import undeclared
from mlx_native_py.softmetal.checked.intervals import Intervals

from .checked_graphs import Step

_LEAST = 4  # bytes of an element, mostly
Range = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """What a dispatch is said to read and to write, by address, and what of that was left out."""

    step: Step
    reads: Sequence[Range]
    writes: Sequence[Range]
    read: bool
    """Whether it is a read that is left out."""
    left_out: Range

    @property
    def is_equivalent(self) -> bool:
        """Nobody needs to know of what the kernel does not touch so, or what is declared a second time.

        To be written counts as well for reads: whoever must wait for a read, or be waited for, must for a write too.
        """
        touched = self.step.touched
        used = (touched.reads, touched.atomic_reads) if self.read else (touched.writes, touched.atomic_writes)
        told = (*self.reads, *self.writes) if self.read else self.writes
        start, end = self.left_out
        missed = _mask(start, end, (span for part in used for span in _spans(part)))
        return not (missed & ~_mask(start, end, told)).any()

    @property
    def is_flagged(self) -> bool:
        """Whether checked mode says that the dispatch does what it does not declare."""
        memories = {memory for memory, _, _ in (*self.step.reads, *self.step.writes)}
        bound = [(each.address, each.address + each.nbytes) for each in memories]
        return bool(undeclared(self.step.kernel, self, self.step.touched, bound, lambda address: ("buffer", 0)))


def _spans(intervals: Intervals) -> list[Range]:
    return intervals.spans()


def _mask(start: int, end: int, spans: Iterable[Range]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which bytes from `start` to `end` are in one of the spans."""
    mask = np.zeros(end - start, np.bool_)
    for low, high in spans:
        mask[max(low - start, 0) : max(high - start, 0)] = True
    return mask


def mutants(step: Step) -> Iterator[Mutant]:
    """Each declared range left out as a whole, by half from either end, and by an element at either end."""
    reads, writes = ([span[1:] for span in spans] for spans in (step.reads, step.writes))
    for declared, read in ((step.reads, True), (step.writes, False)):
        for place, span in enumerate(declared):
            for left_out, kept in _cuts(span):
                changed = [each[1:] for each in declared]
                changed[place : place + 1] = kept
                yield Mutant(step, changed if read else reads, writes if read else changed, read, left_out)


def _cuts(span: Span) -> Iterator[tuple[Range, list[Range]]]:
    _, start, end = span
    yield (start, end), []
    for at in sorted({start + _LEAST, (start + end) // 2} & set(range(start + 1, end))):
        yield (start, at), [(at, end)]
    for at in sorted({end - _LEAST, (start + end) // 2} & set(range(start + 1, end))):
        yield (at, end), [(start, at)]
