"""Partitioning among ranks: even ranges, weighted ranges, and attention heads with their KV heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import gcd, lcm

from ..errors import InvalidArgument

__all__ = ["Heads", "even_ranges", "head_parts", "weighted_ranges"]


def even_ranges(total: int, parts: int, unit: int = 1, what: str = "items") -> list[range]:
    """Splits `total` items into `parts` ranges that differ by at most one unit; borders are multiples of `unit`.

    >>> even_ranges(1536, 4, unit=256)
    [range(0, 512), range(512, 1024), range(1024, 1280), range(1280, 1536)]
    """
    units, left = divmod(total, unit)
    if left:
        raise InvalidArgument(f"{total} {what} are not whole units of {unit}")
    if units < parts:
        grouped = f" in units of {unit}" if unit > 1 else ""
        raise InvalidArgument(f"{total} {what}{grouped} cannot be divided among {parts} ranks; use at most {units}")
    more, rest = divmod(units, parts)
    borders = [unit * (part * more + min(part, rest)) for part in range(parts + 1)]
    return [range(first, last) for first, last in zip(borders, borders[1:], strict=False)]


def weighted_ranges(weights: Sequence[int], parts: int, first: int = 0, last: int = 0) -> list[range]:
    """Splits items into `parts` non-empty ranges of about equal weight.

    `first` and `last` are extra weights of the first and last part.

    >>> weighted_ranges([10] * 6, 2, last=20)
    [range(0, 4), range(4, 6)]
    """
    count = len(weights)
    if count < parts:
        raise InvalidArgument(f"{count} layers cannot be divided among {parts} ranks; use at most {count}")
    ends = [first + sum(weights[: index + 1]) for index in range(count)]
    goal = (ends[-1] + last) / parts
    borders = [0]
    for part in range(1, parts):
        low, high = borders[-1] + 1, count - (parts - part)
        borders.append(min(range(low, high + 1), key=lambda border: abs(ends[border - 1] - goal * part)))
    borders.append(count)
    return [range(start, stop) for start, stop in zip(borders, borders[1:], strict=False)]


@dataclass(frozen=True, slots=True)
class Heads:
    """The query heads of a rank, and the KV head of each run of `len(queries) // len(keys)` of them."""

    queries: range
    keys: tuple[int, ...]


def head_parts(n_heads: int, n_kv_heads: int, parts: int, unit: int = 1) -> list[Heads]:
    """Splits attention heads into `parts` ranges; borders are multiples of `unit` heads.

    If there are enough KV heads, the query heads of each stay together; otherwise KV heads are replicated.

    >>> head_parts(9, 3, 2)
    [Heads(queries=range(0, 6), keys=(0, 1)), Heads(queries=range(6, 9), keys=(2,))]
    >>> head_parts(9, 3, 4)[2]
    Heads(queries=range(5, 7), keys=(1, 2))
    """
    group = n_heads // n_kv_heads
    whole = lcm(group, unit)
    together = n_heads % whole == 0 and n_heads // whole >= parts
    ranges = even_ranges(n_heads, parts, whole if together else unit, "heads of attention")
    return [Heads(queries, _keys(queries, group)) for queries in ranges]


def _keys(queries: range, group: int) -> tuple[int, ...]:
    """KV heads for a range of query heads, repeated as needed for even groups."""
    runs = [(key, len(list(run))) for key, run in groupby(queries, lambda query: query // group)]
    share = gcd(*(length for _, length in runs))
    return tuple(key for key, length in runs for _ in range(length // share))
