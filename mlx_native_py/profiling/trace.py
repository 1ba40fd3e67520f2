"""Traces in Chrome's JSON format, for Perfetto, chrome://tracing and speedscope.

Only complete events carry time, because some viewers know nothing else; flows, counters and instants are extra.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..errors import InvalidArgument

__all__ = ["Event", "Trace", "lanes_of", "merge_traces", "merged"]

Event = dict[str, Any]
Span = tuple[int, int, Event]
"""Start and end in nanoseconds, and the event."""


class Trace:
    """Spans, arrows and counters on named tracks; times are nanoseconds of the monotonic clock.

    >>> trace = Trace(origin_ns=1000)
    >>> reduced = trace.span("MPI", "all_reduce", 2000, 5000, bytes=64)
    >>> reduced["ts"], reduced["dur"]
    (1.0, 3.0)
    """

    def __init__(self, *, origin_ns: int = 0, wall_ns: int = 0, rank: int = 0, process: str = "mlx_native_py") -> None:
        self.origin_ns = origin_ns
        """The time that the trace counts from."""
        self.wall_ns = wall_ns
        """The same moment in Unix time, used to merge traces of several machines."""
        self.pid = rank + 1
        self._process = process
        self.tracks: dict[str, list[Span]] = {}
        """The spans of each track."""
        self._arrows: list[tuple[str, Event, Event, dict[str, Any]]] = []
        self._counters: list[Event] = []

    def span(self, track: str, name: str, start_ns: int, end_ns: int, **args: Any) -> Event:
        """Adds a span; the returned event can be passed to `arrow`."""
        end_ns = max(start_ns, end_ns)
        event = self._event("X", name, (start_ns - self.origin_ns) / 1e3)
        event |= {"dur": (end_ns - start_ns) / 1e3, "args": args}
        self.tracks.setdefault(track, []).append((start_ns, end_ns, event))
        return event

    def counter(self, name: str, at_ns: int, **values: float) -> None:
        """Adds values that change over time."""
        event = self._event("C", name, (at_ns - self.origin_ns) / 1e3)
        self._counters.append({**event, "tid": 0, "args": values})

    def arrow(self, name: str, start: Event, end: Event, **args: Any) -> None:
        """Adds an arrow from one span to a later one."""
        self._arrows.append((name, start, end, args))

    def events(self) -> list[Event]:
        """All events, with one line per track, and more lines where spans overlap without nesting."""
        told = [self._name("process_name", 0, self._process), self._name("process_sort_index", 0, self.pid)]
        tid = 0
        for track, spans in self.tracks.items():
            for number, line in enumerate(lanes_of(spans)):
                tid += 1
                told.append(self._name("thread_name", tid, f"{track} ({number + 1})" if number else track))
                told.append(self._name("thread_sort_index", tid, tid))
                for _, _, event in line:
                    event["tid"] = tid
                    told.append({key: value for key, value in event.items() if key != "id_of"})
        for number, arrow in enumerate(self._arrows, 1):
            told += self._flow(number, *arrow)
        return told + self._counters

    def as_dict(self) -> dict[str, Any]:
        """The contents of a trace file."""
        other = {"origin_ns": self.origin_ns, "wall_ns": self.wall_ns, "host": socket.gethostname()}
        return {"traceEvents": self.events(), "displayTimeUnit": "ns", "otherData": other}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace file."""
        Path(path).write_text(json.dumps(self.as_dict(), separators=(",", ":")))

    def _event(self, phase: str, name: str, ts: float) -> Event:
        return {"ph": phase, "name": name, "cat": "mlx_native_py", "ts": ts, "pid": self.pid}

    def _name(self, kind: str, tid: int, value: str | int) -> Event:
        key = "sort_index" if kind.endswith("sort_index") else "name"
        return {"ph": "M", "name": kind, "ts": 0, "pid": self.pid, "tid": tid, "args": {key: value}}

    def _flow(self, number: int, name: str, start: Event, end: Event, args: dict[str, Any]) -> list[Event]:
        """An arrow from the middle of the first span to the start of the second, where viewers expect it."""
        shared = {"cat": "flow", "id": self.pid << 32 | number, "args": args}
        leaves = start["ts"] + start["dur"] / 2
        first = {**self._event("s", name, leaves), "tid": start["tid"], **shared}
        return [first, {**self._event("f", name, end["ts"]), "tid": end["tid"], **shared, "bp": "e"}]


def lanes_of(spans: Sequence[Span], *, apart: bool = False) -> list[list[Span]]:
    """Distributes spans over as few lines as possible without overlap; nested spans share a line unless `apart`."""
    lines: list[list[Span]] = []
    ends: list[list[int]] = []
    for start, end, event in sorted(spans, key=lambda span: (span[0], -span[1])):
        number = _with_room(ends, start, end, apart)
        if number == len(lines):
            lines.append([])
            ends.append([])
        lines[number].append((start, end, event))
        ends[number].append(end)
    return lines


def _with_room(ends: list[list[int]], start: int, end: int, apart: bool) -> int:
    """The first line with room for a span; a new one if there is none."""
    for number, still_open in enumerate(ends):
        while still_open and still_open[-1] <= start:
            still_open.pop()
        if not still_open or (end <= still_open[-1] and not apart):
            return number
    return len(ends)


def merge_traces(paths: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> None:
    """Merges the trace files of several ranks on one clock: that of their machine, or the wall clock."""
    tables = [_read(path) for path in paths]
    if not tables:
        raise InvalidArgument("merge_traces: no files, expected at least one")
    Path(out).write_text(json.dumps(merged(tables), separators=(",", ":")))


def merged(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merges traces returned by `Trace.as_dict` on the clock of the earliest."""
    shared = len({table["otherData"]["host"] for table in tables}) == 1
    clock = "origin_ns" if shared else "wall_ns"
    first = min(tables, key=lambda table: int(table["otherData"][clock]))
    events = [event for table in tables for event in _shifted(table, int(first["otherData"][clock]), clock)]
    return {**first, "traceEvents": events}


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        table: dict[str, Any] = json.loads(Path(path).read_bytes())
        if not all(key in table["otherData"] for key in ("host", "origin_ns", "wall_ns")):
            raise KeyError("otherData")
        list(table["traceEvents"])
    except (ValueError, TypeError, KeyError, RecursionError) as reason:
        raise InvalidArgument(f"{os.fspath(path)} is not a trace written by p.trace(): {reason!r}") from None
    return table


def _shifted(table: dict[str, Any], origin: int, clock: str) -> Iterable[Event]:
    later = (int(table["otherData"][clock]) - origin) / 1e3
    for event in table["traceEvents"]:
        yield event if event["ph"] == "M" else {**event, "ts": event["ts"] + later}
