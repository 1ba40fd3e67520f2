"""GPU times of command buffers and dispatches, and the relation of GPU ticks to nanoseconds.

Every time says how it was obtained. Completed command buffers that nobody waited for are included: all queues are
polled whenever the tables are read.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import ref

from .. import settings
from ..forks import Lock

__all__ = [
    "APPORTIONED",
    "CommandBufferEntry",
    "DispatchEntry",
    "MEASURED",
    "ProfileEntry",
    "Provenance",
    "SIMULATED",
    "Source",
    "add_source",
    "convert_gpu_ticks_to_ns",
    "dump",
    "dump_command_buffers",
    "dump_dispatches",
    "is_dispatch_enabled",
    "is_enabled",
    "queues",
    "record",
    "record_clock_pair",
    "record_command_buffer",
    "record_dispatch",
    "reset",
    "unsupported",
]

_MAX_TIMES = 1 << 16  # times per label used for percentiles
_MAX_ENTRIES = 1 << 20  # entries of the flat tables; the oldest are dropped


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a time was obtained.

    >>> print(MEASURED, "/", unsupported("no timestamp counters"))
    measured / unsupported (no timestamp counters)
    """

    how: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.how} ({self.reason})" if self.reason else self.how


MEASURED = Provenance("measured")
APPORTIONED = Provenance("apportioned")
SIMULATED = Provenance("simulated")


def unsupported(reason: str) -> Provenance:
    """Says that there is no time, and why."""
    return Provenance("unsupported", reason)


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """Statistics of all command buffers with one label."""

    count: int = 0
    total_ns: int = 0
    min_ns: int = 0
    max_ns: int = 0
    provenance: Provenance = MEASURED
    times: tuple[int, ...] = ()
    """The latest times, in order of completion."""

    def percentile(self, percent: float) -> int:
        """The nearest-rank percentile of the latest times; 0 if there are none.

        >>> ProfileEntry(times=(30, 10, 20)).percentile(50)
        20
        """
        if not self.times:
            return 0
        return sorted(self.times)[max(0, math.ceil(len(self.times) * percent / 100) - 1)]


@dataclass(frozen=True, slots=True)
class CommandBufferEntry:
    """One command buffer; `sequence` numbers those of this process in order of submission."""

    sequence: int
    label: str
    gpu_ns: int
    dispatches: int
    provenance: Provenance = MEASURED
    dispatch_timing: Provenance | None = None
    """How its dispatches were timed; None if they were not."""


@dataclass(frozen=True, slots=True)
class DispatchEntry:
    """One dispatch; times are nanoseconds on the CPU's clock."""

    cb_label: str
    op_kind: str
    dispatch_index: int
    gpu_ns: int
    start_gpu_ns: int
    end_gpu_ns: int
    kernel: str = ""
    sequence: int = 0
    """The sequence number of its command buffer."""
    provenance: Provenance = MEASURED


class Source(Protocol):
    """A queue with command buffers in flight."""

    def collect(self) -> None:
        """Records those that have completed."""
        ...

    def in_orders(self, count: int) -> AbstractContextManager[Any]:
        """Repeats each pass of the block in this many orders."""
        ...

    def wait_all(self) -> None:
        """Waits for all of them."""
        ...


class _Label:
    """Running statistics of one label."""

    def __init__(self) -> None:
        self.count = self.total = self.least = self.most = 0
        self.provenance = MEASURED
        self.times: deque[int] = deque(maxlen=_MAX_TIMES)

    def add(self, ns: int, provenance: Provenance) -> None:
        self.least = ns if not self.count else min(self.least, ns)
        self.most = max(self.most, ns)
        self.count += 1
        self.total += ns
        self.provenance = provenance
        self.times.append(ns)

    def entry(self) -> ProfileEntry:
        return ProfileEntry(self.count, self.total, self.least, self.most, self.provenance, tuple(self.times))


_lock = Lock()
_labels: dict[str, _Label] = {}
_command_buffers: deque[CommandBufferEntry] = deque(maxlen=_MAX_ENTRIES)
_dispatches: deque[DispatchEntry] = deque(maxlen=_MAX_ENTRIES)
_sources: set[ref[Source]] = set()
_clock: list[tuple[int, int]] = []  # the first and the latest (CPU ns, GPU ticks)


def is_enabled() -> bool:
    """Whether new command buffers are timed (`MLX_PROFILE_CB`)."""
    return settings.current().profile_cb


def is_dispatch_enabled() -> bool:
    """Whether new dispatches are timed individually (`MLX_PROFILE_DISPATCH`)."""
    return settings.current().profile_dispatch


def record(label: str, gpu_ns: int, provenance: Provenance = MEASURED) -> None:
    """Adds a time to a label.

    >>> reset()
    >>> record("layer", 100); record("layer", 300); record("head", 50)
    >>> [(label, entry.count, entry.total_ns, entry.percentile(50)) for label, entry in dump()]
    [('layer', 2, 400, 100), ('head', 1, 50, 50)]
    """
    with _lock:
        _labels.setdefault(label, _Label()).add(max(0, int(gpu_ns)), provenance)


def record_command_buffer(entry: CommandBufferEntry) -> None:
    """Adds a command buffer to its label and to the list of all."""
    record(entry.label, entry.gpu_ns, entry.provenance)
    with _lock:
        _command_buffers.append(entry)


def record_dispatch(entry: DispatchEntry) -> None:
    """Adds a dispatch."""
    with _lock:
        _dispatches.append(entry)


def dump() -> list[tuple[str, ProfileEntry]]:
    """(label, statistics), the largest total first; ties in order of first appearance."""
    _collect()
    with _lock:
        entries = [(label, figures.entry()) for label, figures in _labels.items()]
    return sorted(entries, key=lambda pair: -pair[1].total_ns)


def dump_command_buffers() -> list[CommandBufferEntry]:
    """All recorded command buffers in order of submission."""
    _collect()
    with _lock:
        return sorted(_command_buffers, key=lambda entry: entry.sequence)


def dump_dispatches() -> list[tuple[str, list[DispatchEntry]]]:
    """(command buffer label, its dispatches), labels in order of first appearance."""
    _collect()
    with _lock:
        groups: dict[str, list[DispatchEntry]] = {}
        for entry in _dispatches:
            groups.setdefault(entry.cb_label, []).append(entry)
    return list(groups.items())


def reset() -> None:
    """Clears all tables and the clock; command buffers that have completed by now are dropped too."""
    _collect()
    with _lock:
        _labels.clear()
        _command_buffers.clear()
        _dispatches.clear()
        _clock.clear()


def add_source(source: Source) -> None:
    """Registers a queue to be polled before the tables are read, while it is alive."""
    with _lock:
        _sources.add(ref(source, _sources.discard))


def queues() -> list[Source]:
    """The queues of this process that are alive."""
    return list(filter(None, [each() for each in list(_sources)]))


def _collect() -> None:
    for source in queues():
        source.collect()


def record_clock_pair(cpu_ns: int, gpu_ticks: int) -> None:
    """Records simultaneous readings of both clocks; the first and the latest pair relate them. Zeros are ignored."""
    if cpu_ns <= 0 or gpu_ticks <= 0:
        return
    with _lock:
        _clock[1:] = [(cpu_ns, gpu_ticks)]


def convert_gpu_ticks_to_ns(ticks: int) -> int:
    """GPU ticks as nanoseconds on the CPU's clock, interpolated between two recorded pairs.

    With a single pair, both clocks are assumed to have started together; without any, a tick is a nanosecond.

    >>> reset()
    >>> record_clock_pair(5_000, 100); record_clock_pair(6_000, 150)
    >>> convert_gpu_ticks_to_ns(100), convert_gpu_ticks_to_ns(125)
    (5000, 5500)
    >>> reset()
    """
    with _lock:
        pairs = list(_clock)
    if not pairs:
        return ticks
    (cpu0, gpu0), (cpu1, gpu1) = pairs if len(pairs) == 2 else ((0, 0), pairs[0])
    if gpu1 <= gpu0 or cpu1 <= cpu0:
        return cpu1 + ticks - gpu1
    return cpu0 + (ticks - gpu0) * (cpu1 - cpu0) // (gpu1 - gpu0)
