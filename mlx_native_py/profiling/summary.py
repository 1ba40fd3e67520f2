"""Aggregated profile rows: by kernel, op, command buffer label or region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ..errors import InvalidArgument
from .records import CommandBufferRecord, DispatchRecord

__all__ = ["By", "Peaks", "Row", "SORTS", "check_by", "rows_by"]

By = Literal["kernel", "op", "label", "region"]


@dataclass(frozen=True, slots=True)
class Peaks:
    """The highest measured rates of a device, in bytes and floating-point operations per second."""

    bandwidth: float
    flops: float
    how: str = "measured"


@dataclass(slots=True)
class Row:
    """The totals of one kernel, op, label or region; `how` says how its GPU time was obtained."""

    name: str
    depth: int = 0
    calls: int = 0
    warm_up: int = 0
    """Calls that were the first of their kind."""
    gpu_ns: float = 0.0
    share: float = 0.0
    """Of the GPU time of all rows; a region includes its nested ones."""
    nbytes: int = 0
    flops: int = 0
    flops_ns: float = 0.0
    """The time of calls with known arithmetic."""
    barriers: int = 0
    gap_ns: int = 0
    encode_ns: float = 0.0
    hows: dict[str, None] = field(default_factory=dict)
    peaks: Peaks | None = None

    def add(self, calls: int, gpu_ns: float, how: str, warm_up: bool) -> None:
        self.calls += calls
        self.gpu_ns += gpu_ns
        self.warm_up += warm_up
        self.hows[how] = None

    def add_work(self, dispatch: DispatchRecord) -> None:
        self.nbytes += dispatch.nbytes
        if dispatch.flops:
            self.flops += dispatch.flops
            self.flops_ns += dispatch.gpu_ns

    @property
    def mean_ns(self) -> float:
        return self.gpu_ns / self.calls if self.calls else 0.0

    @property
    def gbps(self) -> float | None:
        """GB/s over the tracked bytes."""
        return self.nbytes / self.gpu_ns if self.gpu_ns and self.nbytes else None

    @property
    def gflops(self) -> float | None:
        """GFLOP/s over the calls with known arithmetic."""
        return self.flops / self.flops_ns if self.flops_ns else None

    @property
    def peak(self) -> float | None:
        """The higher of both rates as a share of the device's peak."""
        if self.peaks is None:
            return None
        reached = (self.gbps or 0.0) * 1e9 / self.peaks.bandwidth, (self.gflops or 0.0) * 1e9 / self.peaks.flops
        return max(reached) or None

    @property
    def how(self) -> str:
        return ", ".join(self.hows)

    def as_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        names = ("name", "depth", "calls", "warm_up", "gpu_ns", "mean_ns", "share", "nbytes", "gbps", "flops", "gflops")
        return {name: getattr(self, name) for name in (*names, "peak", "barriers", "gap_ns", "encode_ns", "how")}


SORTS: dict[str, Callable[[Row], Any]] = {
    "gpu": lambda row: -row.gpu_ns,
    "mean": lambda row: -row.mean_ns,
    "calls": lambda row: -row.calls,
    "gbps": lambda row: -(row.gbps or 0.0),
    "gflops": lambda row: -(row.gflops or 0.0),
    "peak": lambda row: -(row.peak or 0.0),
    "barriers": lambda row: -row.barriers,
    "gaps": lambda row: -row.gap_ns,
    "encode": lambda row: -row.encode_ns,
    "name": lambda row: row.name,
}
"""Sort keys of a table."""


def check_by(by: str) -> None:
    """Raises if rows cannot be grouped by this."""
    if by not in get_args(By):
        raise InvalidArgument(f"by={by!r}; allowed: {', '.join(get_args(By))}")


def rows_by(records: Sequence[CommandBufferRecord], by: By, sort: str = "gpu", peaks: Peaks | None = None) -> list[Row]:
    """The rows, sorted; failed command buffers are left out."""
    check_by(by)
    if sort not in SORTS:
        raise InvalidArgument(f"sort={sort!r}; allowed: {', '.join(SORTS)}")
    good = [record for record in records if not record.failed]
    groups = _by_label(good) if by == "label" else _by_dispatch(good, by)
    total = sum(row.gpu_ns for row in groups.values() if not row.depth)
    for row in groups.values():
        row.share = row.gpu_ns / total if total else 0.0
        row.peaks = peaks
    return _as_tree(groups, sort) if by == "region" else sorted(groups.values(), key=SORTS[sort])


Groups = dict[tuple[str, ...], Row]


def _by_label(records: Iterable[CommandBufferRecord]) -> Groups:
    groups: Groups = {}
    for record in records:
        row = groups.setdefault((record.label,), Row(record.label))
        row.add(1, record.gpu_ns, record.how, record.warm_up)
        row.barriers += len(record.barriers)
        row.gap_ns += record.gap_ns
        row.encode_ns += record.encode_ns
        for dispatch in record.dispatches:
            row.add_work(dispatch)
    return groups


def _by_dispatch(records: Iterable[CommandBufferRecord], by: By) -> Groups:
    groups: Groups = {}
    for record in records:
        waits = {barrier.before for barrier in record.barriers}
        encode = record.encode_ns / len(record.dispatches) if record.dispatches else 0.0
        for dispatch in record.dispatches:
            for path in _paths(dispatch, by):
                row = groups.setdefault(path, Row(path[-1], len(path) - 1))
                row.add(1, dispatch.gpu_ns, dispatch.how, dispatch.warm_up)
                row.add_work(dispatch)
                row.barriers += dispatch.index in waits
                row.gap_ns += dispatch.gap_ns
                row.encode_ns += encode
    return groups


def _paths(dispatch: DispatchRecord, by: By) -> Iterator[tuple[str, ...]]:
    """The rows that a dispatch counts in: for regions, its own and all enclosing ones."""
    if by == "kernel":
        yield (dispatch.kernel,)
    elif by == "op":
        yield (dispatch.op or "(kernel called directly)",)
    elif not dispatch.region:
        yield ("(no region)",)
    else:
        for depth in range(len(dispatch.region)):
            yield dispatch.region[: depth + 1]


def _as_tree(groups: Groups, sort: str) -> list[Row]:
    """Each region followed by its nested ones."""

    def below(path: tuple[str, ...]) -> Iterator[Row]:
        inner = [each for each in groups if len(each) == len(path) + 1 and each[: len(path)] == path]
        for each in sorted(inner, key=lambda key: SORTS[sort](groups[key])):
            yield groups[each]
            yield from below(each)

    return list(below(()))
