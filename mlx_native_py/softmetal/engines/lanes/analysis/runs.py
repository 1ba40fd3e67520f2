"""The memory accessed by all lanes of an instruction, as runs of contiguous elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from .shape import WIDTH, LaneShape, Offsets

_FEW = 8  # loads or stores that one access of all lanes may become
_FEW_LONG = 16  # the same if each of them is of 8 bytes or more
_LONG = 8


@dataclass(frozen=True)
class Run:
    """`count` contiguous elements, `first` bytes and `factor` strides after lane 0's pointer."""

    factor: int
    first: int
    count: int


def runs(shape: LaneShape, size: int) -> tuple[Run, ...]:
    """What lanes touch with elements of `size` bytes, by factor and then by address; nothing where that is unknown."""
    return () if shape.offsets is None else _runs(shape.offsets, shape.factors, size)


@lru_cache(1024)
def _runs(offsets: Offsets, factors: Offsets, size: int) -> tuple[Run, ...]:
    together: list[Run] = []
    for factor, offset in sorted(set(zip(factors, offsets, strict=True))):
        last = together[-1] if together else None
        if last is not None and last.factor == factor and offset == last.first + last.count * size:
            together[-1] = replace(last, count=last.count + 1)
        else:
            together.append(Run(factor, offset, 1))
    return tuple(together)


def few_runs(shape: LaneShape, size: int) -> tuple[Run, ...]:
    """The same if they are few."""
    all_runs = runs(shape, size)
    long = all(run.count * size >= _LONG for run in all_runs)
    return all_runs if len(all_runs) <= (_FEW_LONG if long else _FEW) else ()


def singles(shape: LaneShape, size: int) -> tuple[Run, ...]:
    """The same if each lane has an element of its own, far from the others'."""
    all_runs = runs(shape, size)
    return all_runs if len(all_runs) == WIDTH else ()


def in_order_of_lanes(shape: LaneShape, parts: Sequence[Run], size: int) -> list[tuple[Run, list[int]]]:
    """The runs with the highest lane at each of their elements, lower lanes first.

    Empty where that order cannot be had and runs may overlap, since the stride may be anything.
    """
    assert shape.offsets is not None
    writer = {place: lane for lane, place in enumerate(zip(shape.factors, shape.offsets, strict=True))}
    writers = [(p, [writer[p.factor, p.first + i * size] for i in range(p.count)]) for p in parts]
    writers.sort(key=lambda pair: max(pair[1]))
    ordered = all(max(before[1]) < min(after[1]) for before, after in zip(writers, writers[1:], strict=False))
    return writers if ordered or shape.stride is None else []
