"""Comparison of two profiles: what became slower, beyond measurement noise.

Calls are compared with calls of the same kernel over the same number of bytes. The noise of each side is the standard
error of its median, from the median absolute deviation; a difference counts beyond three times both combined. First
calls are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..table import Table
from .records import CommandBufferRecord
from .summary import By, check_by

__all__ = ["Change", "Comparison", "compare"]

_MIN_CALLS = 3  # calls needed to estimate noise
_MIN_DIFFERENCE = 0.02  # relative differences below this count as none
_BOUND = 3.0
_MEDIAN_ERROR = 1.2533 * 1.4826  # standard error of a median of normal samples, from the median absolute deviation

Calls = dict[str, dict[int, list[float]]]
"""Times in nanoseconds, by name and by the bytes that a call accesses."""


@dataclass(frozen=True, slots=True)
class Change:
    """One kernel, op, label or region in both profiles; times are nanoseconds per call."""

    name: str
    calls: tuple[int, int]
    before_ns: float
    after_ns: float
    noise_ns: float
    """The threshold for a difference; infinite with too few calls."""

    @property
    def difference_ns(self) -> float:
        return self.after_ns - self.before_ns

    @property
    def total_ns(self) -> float:
        """The difference over all calls of the second profile."""
        return self.difference_ns * self.calls[1]

    @property
    def verdict(self) -> str:
        """slower, faster, same (within noise), new, gone, or too few calls."""
        if not all(self.calls):
            return "gone" if self.calls[0] else "new"
        if math.isinf(self.noise_ns):
            return "too few calls"
        if abs(self.difference_ns) <= self.noise_ns or abs(self.difference_ns) < _MIN_DIFFERENCE * self.before_ns:
            return "same"
        return "slower" if self.difference_ns > 0 else "faster"


class Comparison:
    """The changes from one profile to another, the most expensive first."""

    def __init__(self, by: By, changes: Sequence[Change]) -> None:
        self.by = by
        self.changes = sorted(changes, key=lambda change: -abs(change.total_ns))

    @property
    def slower(self) -> list[Change]:
        """Changes that became slower beyond noise."""
        return [change for change in self.changes if change.verdict == "slower"]

    def to_records(self) -> list[dict[str, Any]]:
        told = []
        for change in self.changes:
            noise = None if math.isinf(change.noise_ns) else change.noise_ns
            told.append({**asdict(change), "noise_ns": noise, "verdict": change.verdict})
        return told

    def table(self) -> Table:
        """The changes as a table."""
        head = (self.by, "calls", "before us", "after us", "change", "noise us", "verdict")
        rows = [
            (
                change.name,
                f"{change.calls[0]:,} / {change.calls[1]:,}",
                f"{change.before_ns / 1e3:,.2f}" if change.calls[0] else "",
                f"{change.after_ns / 1e3:,.2f}" if change.calls[1] else "",
                f"{change.difference_ns / change.before_ns:+.1%}" if all(change.calls) and change.before_ns else "",
                "" if math.isinf(change.noise_ns) or not all(change.calls) else f"{change.noise_ns / 1e3:,.2f}",
                change.verdict,
            )
            for change in self.changes
        ]
        note = "times are medians of a call, without first calls; noise is what a change has to exceed"
        return Table("", head, rows, [note], self.to_records(), words=(self.by, "verdict"))

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def compare(before: Sequence[CommandBufferRecord], after: Sequence[CommandBufferRecord], by: By) -> Comparison:
    """Compares two profiles."""
    check_by(by)
    first, second = _calls(before, by), _calls(after, by)
    return Comparison(by, [_change(name, first.get(name, {}), second.get(name, {})) for name in {**first, **second}])


def _calls(records: Sequence[CommandBufferRecord], by: By) -> Calls:
    calls: Calls = {}

    def add(name: str, nbytes: int, ns: float) -> None:
        calls.setdefault(name, {}).setdefault(nbytes, []).append(ns)

    for record in records:
        if record.failed or (by == "label" and record.warm_up):
            continue
        if by == "label":
            add(record.label, len(record.dispatches), record.gpu_ns)
            continue
        for dispatch in record.dispatches:
            name = {"kernel": dispatch.kernel, "op": dispatch.op or dispatch.kernel}.get(by, "/".join(dispatch.region))
            if not dispatch.warm_up:
                add(name or "(no region)", dispatch.nbytes, dispatch.gpu_ns)
    return calls


def _change(name: str, before: dict[int, list[float]], after: dict[int, list[float]]) -> Change:
    calls = sum(map(len, before.values())), sum(map(len, after.values()))
    shared = [size for size in before if size in after]
    if not shared:
        return Change(name, calls, _mean_median(before), _mean_median(after), math.inf)
    weight = {size: len(before[size]) / sum(len(before[each]) for each in shared) for size in shared}
    times = [sum(weight[size] * _median(side[size]) for size in shared) for side in (before, after)]
    errors = [(weight[size] * _error(side[size])) ** 2 for size in shared for side in (before, after)]
    return Change(name, calls, times[0], times[1], _BOUND * math.sqrt(sum(errors)))


def _mean_median(sizes: dict[int, list[float]]) -> float:
    calls = sum(map(len, sizes.values()))
    return sum(len(times) * _median(times) for times in sizes.values()) / calls if calls else 0.0


def _error(times: list[float]) -> float:
    """The standard error of the median."""
    if len(times) < _MIN_CALLS:
        return math.inf
    middle = _median(times)
    return _MEDIAN_ERROR * _median(abs(each - middle) for each in times) / math.sqrt(len(times))


def _median(times: Iterable[float]) -> float:
    """The median."""
    ordered = sorted(times)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
