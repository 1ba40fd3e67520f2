"""The HTML report of a profile: timeline, tables, treemap, roofline, barriers and memory in one offline file.

The script is plain JavaScript: a canvas, some SVG and a few tables need no framework.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any, get_args

from .records import CommandBufferRecord
from .summary import By, Row
from .trace import Trace, lanes_of
from .trace_of_profile import trace_of

if TYPE_CHECKING:
    from .profile import Profile

__all__ = ["page_of"]


def page_of(profiled: Profile, earlier: Profile | None, title: str) -> str:
    """The HTML text."""
    data = json.dumps(_data(profiled, earlier, title or "GPU profile"), separators=(",", ":"))
    folder = files("mlx_native_py.profiling") / "page"
    parts = {
        "title": html.escape(title or "GPU profile"),
        "style": (folder / "page.css").read_text(encoding="utf-8"),
        "script": (folder / "page.js").read_text(encoding="utf-8"),
        # A script element ends at the first "</", even inside a string.
        "data": data.replace("</", "<\\/"),
    }
    page = (folder / "page.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(f"{{{{{name}}}}}", text, 1)
    return page


def _data(profiled: Profile, earlier: Profile | None, title: str) -> dict[str, Any]:
    records, rows = profiled.records, {by: profiled.rows(by) for by in get_args(By)}
    table = profiled.table()
    return {
        "title": title,
        "summary": str(profiled),
        "notes": list(table.notes),
        "peaks": None
        if profiled.peaks is None
        else {"bandwidth": profiled.peaks.bandwidth, "flops": profiled.peaks.flops},
        "tracks": list(_tracks(profiled)),
        "rows": {by: [row.as_dict() for row in entries] for by, entries in rows.items()},
        "points": [_point(row) for row in rows["kernel"] if row.gflops and row.nbytes],
        "bars": [{"name": row.name, "gbps": row.gbps} for row in rows["kernel"] if row.gbps and not row.gflops],
        "tree": _tree(records),
        "barriers": [each for record in records for each in _barriers(record, profiled.started_ns)],
        "memory": sorted((when - profiled.started_ns, size) for record in records for when, size in record.memory),
        "changes": None if earlier is None else _changes(earlier, profiled),
    }


def _tracks(profiled: Profile) -> Iterator[dict[str, Any]]:
    """The tracks of the trace, each span with its line and its details."""
    trace = trace_of(profiled.records, profiled.spans, Trace(origin_ns=profiled.started_ns))
    for name, spans in trace.tracks.items():
        told = []
        for lane, line in enumerate(lanes_of(spans, apart=True)):
            for start, end, event in line:
                more = [f"{key}: {value}" for key, value in event["args"].items() if value not in ("", None, [])]
                text = f"{event['name']} {event['args'].get('op', '')} {event['args'].get('region', '')}"
                span = {"name": event["name"], "start": start - trace.origin_ns, "end": end - trace.origin_ns}
                told.append({**span, "lane": lane, "more": more, "text": text, "id": event.get("id_of")})
        yield {"name": name.partition(",")[0], "spans": told}


def _point(row: Row) -> dict[str, Any]:
    """A point of the roofline."""
    return {
        "name": row.name,
        "rate": row.gflops,
        "gbps": row.gbps,
        "intensity": row.flops / row.nbytes,
        "share": row.share,
    }


def _tree(records: list[CommandBufferRecord]) -> list[dict[str, Any]]:
    """GPU time by outermost region, then by kernel."""
    totals: dict[str, dict[str, float]] = {}
    for record in records:
        for dispatch in record.dispatches:
            kernels = totals.setdefault(dispatch.region[0] if dispatch.region else record.label, {})
            kernels[dispatch.kernel] = kernels.get(dispatch.kernel, 0.0) + dispatch.gpu_ns
    return [
        {"name": region, "leaves": [{"name": name, "size": size} for name, size in kernels.items() if size]}
        for region, kernels in totals.items()
    ]


def _barriers(record: CommandBufferRecord, origin_ns: int) -> Iterator[dict[str, Any]]:
    for barrier in record.barriers:
        later = record.dispatches[barrier.before]
        known = barrier.earlier >= 0
        waited = f"{record.dispatches[barrier.earlier].kernel} ({barrier.earlier})" if known else "all before it"
        waits = f"{later.kernel} ({barrier.before})"
        yield {
            "waits": waits,
            "for": waited,
            "hazard": barrier.hazard,
            "nbytes": barrier.nbytes,
            "memory": barrier.memory,
            "label": record.label,
            "text": f"{waits} {waited} {barrier.memory} {record.label} {'/'.join(later.region)}",
            "to": f"{record.sequence}/{barrier.before}",
            "from": f"{record.sequence}/{barrier.earlier}" if known else None,
            # Without timings of single dispatches, the command buffer is shown.
            "start": record.start_ns - origin_ns,
            "end": record.end_ns - origin_ns,
        }


def _changes(earlier: Profile, profiled: Profile) -> list[dict[str, Any]]:
    told = []
    for change in earlier.compare(profiled).to_records():
        before, after = change["before_ns"], change["after_ns"]
        ratio = after / before - 1 if before and after else None
        told.append({**change, "ratio": ratio, "count": " / ".join(map(str, change["calls"]))})
    return told
