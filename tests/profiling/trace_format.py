"""Chrome's trace event format, as far as we write it: what each phase must have, and what must fit together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

NUMBER = (int, float)
REQUIRED: dict[str, dict[str, Any]] = {
    "X": {"name": str, "cat": str, "ts": NUMBER, "dur": NUMBER, "pid": int, "tid": int, "args": dict},
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
    "C": {"name": str, "ts": NUMBER, "pid": int, "args": dict},
    "s": {"name": str, "cat": str, "ts": NUMBER, "pid": int, "tid": int, "id": int},
    "f": {"name": str, "cat": str, "ts": NUMBER, "pid": int, "tid": int, "id": int, "bp": str},
}
METADATA = {"process_name": "name", "process_sort_index": "sort_index"}
METADATA |= {"thread_name": "name", "thread_sort_index": "sort_index"}


def faults(trace: dict[str, Any]) -> Iterator[str]:
    """What a reader would refuse or misread."""
    if trace.get("displayTimeUnit") not in ("ms", "ns"):
        yield "displayTimeUnit is neither ms nor ns"
    events = trace["traceEvents"]
    wrong = [fault for event in events for fault in _event_faults(event)]
    if wrong:
        yield from wrong
        return
    spans = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            spans[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000)))
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    yield from (f"line {line} has no name" for line in spans if line not in named)
    yield from _nesting_faults(spans)
    yield from _flow_faults(events, spans)


def _event_faults(event: dict[str, Any]) -> Iterator[str]:
    required = REQUIRED.get(event.get("ph", ""))
    if required is None:
        yield f"unknown phase in {event}"
        return
    for key, kind in required.items():
        if not isinstance(event.get(key), kind):
            yield f"{key} of {event}"
    if event["ph"] == "X" and event["dur"] < 0:
        yield f"negative length of {event}"
    if event["ph"] == "C" and not all(isinstance(value, NUMBER) for value in event["args"].values()):
        yield f"counter without numbers: {event}"
    if event["ph"] == "M" and METADATA.get(event["name"]) not in event["args"]:
        yield f"metadata {event}"


def _nesting_faults(spans: dict[Any, list[tuple[int, int]]]) -> Iterator[str]:
    for line, all_of_it in spans.items():
        still_open: list[int] = []
        for start, end in sorted(all_of_it, key=lambda span: (span[0], -span[1])):
            while still_open and still_open[-1] <= start:
                still_open.pop()
            if still_open and end > still_open[-1]:
                yield f"line {line}: a span from {start} to {end} is half inside another"
            still_open.append(end)


def _flow_faults(events: list[dict[str, Any]], spans: dict[Any, list[tuple[int, int]]]) -> Iterator[str]:
    flows = defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            flows[event["id"]].append(event)
            at = round(event["ts"] * 1000)
            on = spans[event["pid"], event["tid"]]
            if not any(start - 1 <= at <= end + 1 for start, end in on):
                yield f"an arrow that touches no span: {event}"
    for number, ends in flows.items():
        if [each["ph"] for each in ends] != ["s", "f"]:
            yield f"arrow {number} has not one beginning and one end"
