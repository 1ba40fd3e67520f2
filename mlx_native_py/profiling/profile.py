"""Profiles: `with profile() as p:` records where GPU time goes."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self, get_args

from ..errors import EncoderStateError, InvalidArgument
from ..table import Table
from . import observer
from .collect import mark_gaps, record_of
from .compare import Comparison, compare
from .peaks import measured_peaks
from .records import CommandBufferRecord, SpanRecord, from_fields
from .report import page_of
from .summary import By, Peaks, Row, rows_by
from .table import profile_table
from .trace import Trace
from .trace_of_profile import trace_of

__all__ = ["Level", "Profile", "load_profile", "profile"]

Level = Literal["cb", "dispatch"]
FORMAT = "mlx_native_py profile 1"

_MAX_DISPATCHES = 1 << 20  # dispatches kept; the oldest are dropped
_CHECK_EVERY = 64  # command buffers between checks of that limit
_NAP = 0.0005
_SIMULATED = "simulated: the time that this machine's CPU took; it says nothing about a GPU"
_APPORTIONED = "apportioned: a share of a command buffer's time, by bytes and arithmetic"
_WARM_UP = "*: the first call is among them, which may have waited for compilation and memory"


class Profile:
    """A profile of everything committed inside `with profile() as p:`."""

    def __init__(self, level: Level = "cb") -> None:
        if level not in get_args(Level):
            raise InvalidArgument(f"level={level!r}; allowed: {', '.join(get_args(Level))}")
        self.level = level
        self.dispatches = level == "dispatch"
        self.started_ns = self.ended_ns = self.wall_ns = 0
        self.spans: list[SpanRecord] = []
        """Spans reported through `observer.add_span`."""
        self.dropped = 0
        """Command buffers that were dropped because there were too many."""
        self._notes: deque[observer.CommandBufferNotes] = deque()
        self._added = self._kept = 0
        self._records: list[CommandBufferRecord] = []
        self._peaks: Peaks | None = None
        self._device: Any = None
        self._seen_kernels: set[str] = set()
        self._seen_labels: set[str] = set()

    # Recording

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Records everything opened from now on, in all threads."""
        if self.started_ns:
            raise EncoderStateError("this profile has already been used; create another one with profile()")
        self.started_ns, self.wall_ns = time.monotonic_ns(), time.time_ns()
        observer.start(self)
        return self

    def stop(self) -> None:
        """Ends the profile; command buffers in flight are added when they complete."""
        if self.started_ns and not self.ended_ns:
            observer.stop(self)
            self.ended_ns = time.monotonic_ns()

    def add(self, notes: observer.CommandBufferNotes) -> None:
        """Called by the observer."""
        self._notes.append(notes)
        self._added += 1
        if self._added % _CHECK_EVERY == 0:
            self._kept += sum(len(each.log) for each in list(self._notes)[-_CHECK_EVERY:])
            while self._kept > _MAX_DISPATCHES:
                self._kept -= len(self._notes.popleft().log)
                self.dropped += 1

    def add_span(self, track: str, name: str, start_ns: int, end_ns: int, args: dict[str, Any]) -> None:
        """Called by `observer.add_span`."""
        self.spans.append(SpanRecord(track, name, start_ns, end_ns, args))

    @property
    def records(self) -> list[CommandBufferRecord]:
        """The completed command buffers in order of submission; after the block, all that were committed in it."""
        self._take_in(wait=bool(self.ended_ns))
        return self._records

    def _take_in(self, wait: bool) -> None:
        pending: deque[observer.CommandBufferNotes] = deque()
        for notes in self._notes:
            while wait and notes.committed and not notes.settled:
                notes.device.submissions.collect()
                time.sleep(_NAP)
            if notes.settled:
                self._device = notes.device
                self._add_record(record_of(notes))
            elif not self.ended_ns or notes.committed:
                pending.append(notes)
        self._notes = pending
        self._records.sort(key=lambda record: record.sequence)
        mark_gaps(self._records)

    def _add_record(self, record: CommandBufferRecord) -> None:
        record.warm_up = record.label not in self._seen_labels
        self._seen_labels.add(record.label)
        for dispatch in record.dispatches:
            dispatch.warm_up = dispatch.kernel not in self._seen_kernels
            self._seen_kernels.add(dispatch.kernel)
        self._records.append(record)

    # Results

    @property
    def peaks(self) -> Peaks | None:
        """The peak rates of the device, measured once, after the block."""
        if self._peaks is None and self.records and self._device is not None:
            self._peaks = measured_peaks(self._device)
        return self._peaks

    def rows(self, by: By = "kernel", sort: str = "gpu") -> list[Row]:
        """The values of `table`."""
        records = self.records
        return rows_by(records, by, sort, self.peaks)

    def table(self, by: By = "kernel", sort: str = "gpu", limit: int | None = None) -> Table:
        """A table by kernel, op, command buffer label or region, sorted by any column in descending order."""
        rows = self.rows(by, sort)
        return profile_table(by, rows, str(self), self._footnotes(rows), limit)

    def _footnotes(self, rows: Sequence[Row]) -> list[str]:
        hows = " ".join(row.how for row in rows)
        notes = [note for word, note in (("simulated", _SIMULATED), ("apportioned", _APPORTIONED)) if word in hows]
        if any(row.warm_up for row in rows):
            notes.append(_WARM_UP)
        if (peaks := self.peaks) is not None:
            notes.append(
                f"peak: {peaks.bandwidth / 1e9:.1f} GB/s copied, {peaks.flops / 1e9:.1f} GFLOP/s multiplied and added "
                f"({peaks.how} on this device)"
            )
        untimed = {record.dispatch_timing for record in self._records if "unsupported" in record.dispatch_timing}
        notes += [f"dispatches were not timed: {reason}" for reason in sorted(untimed)]
        if failed := sum(record.failed for record in self._records):
            notes.append(f"{failed} command buffers failed, and are left out")
        if self.dropped:
            notes.append(f"{self.dropped} early command buffers were let go")
        return notes

    def __str__(self) -> str:
        records = self.records
        count, gpu = sum(len(each.dispatches) for each in records), sum(each.gpu_ns for each in records)
        gaps, encode = sum(each.gap_ns for each in records), sum(each.encode_ns for each in records)
        barriers = sum(len(each.barriers) for each in records)
        return (
            f"{len(records):,} command buffer{'s' * (len(records) != 1)}, {count:,} dispatch{'es' * (count != 1)}, "
            f"{barriers:,} barrier{'s' * (barriers != 1)}; GPU {gpu / 1e6:,.3f} ms, "
            f"gaps {gaps / 1e6:,.3f} ms, encode {encode / 1e6:,.3f} ms"
        )

    def __repr__(self) -> str:
        state = "not started" if not self.started_ns else "ended" if self.ended_ns else "running"
        return f"<Profile, level {self.level!r}, {state}: {self}>"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    # Export

    def to_records(self, by: By | None = None) -> list[dict[str, Any]]:
        """A dict per dispatch, or per row of the table `by`."""
        if by is not None:
            return [row.as_dict() for row in self.rows(by)]
        told = []
        for record in self.records:
            for dispatch in record.dispatches:
                more = {"command_buffer": record.sequence, "label": record.label, "region": "/".join(dispatch.region)}
                told.append({**asdict(dispatch), **more})
        return told

    def to_csv(self, path: str | os.PathLike[str] | None = None, by: By | None = None) -> str:
        """`to_records` as CSV text, also written to `path` if given."""
        records = self.to_records(by)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(records[0]) if records else ["kernel"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        if path is not None:
            Path(path).write_text(text.getvalue())
        return text.getvalue()

    def as_dict(self) -> dict[str, Any]:
        """Everything, as `save` writes it."""
        return {
            "format": FORMAT,
            "level": self.level,
            "started_ns": self.started_ns,
            "ended_ns": self.ended_ns,
            "wall_ns": self.wall_ns,
            "dropped": self.dropped,
            "peaks": None if self.peaks is None else asdict(self.peaks),
            "spans": [asdict(span) for span in self.spans],
            "command_buffers": [record.as_dict() for record in self.records],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything as JSON for `load_profile` and `mlx-native compare`."""
        Path(path).write_text(json.dumps(self.as_dict(), separators=(",", ":")))

    def trace(
        self, path: str | os.PathLike[str] | None = None, *, rank: int = 0, process: str = "mlx_native_py"
    ) -> Trace:
        """A trace for Perfetto, chrome://tracing and speedscope, also written to `path` if given.

        Dispatches are included if they were timed individually. `merge_traces` combines the traces of several ranks.
        """
        begun = Trace(origin_ns=self.started_ns, wall_ns=self.wall_ns, rank=rank, process=process)
        timeline = trace_of(self.records, self.spans, begun)
        if path is not None:
            timeline.write(path)
        return timeline

    def report(self, path: str | os.PathLike[str], *, compare_with: Profile | None = None, title: str = "") -> Path:
        """Writes a self-contained HTML report, with a comparison if an earlier profile is given."""
        file = Path(path)
        file.write_text(page_of(self, compare_with, title), encoding="utf-8")
        return file

    def compare(self, other: Profile, by: By | None = None) -> Comparison:
        """Compares this profile with a later one, by default at the level that both measured."""
        chosen: By = by or ("kernel" if self.level == other.level == "dispatch" else "label")
        return compare(self.records, other.records, chosen)


def profile(level: Level = "cb") -> Profile:
    """Profiles a block of code, on any device and in all threads.

    Level "cb" times command buffers, at no cost on the GPU; kernel times are then apportioned. Level "dispatch" times
    each dispatch individually, which keeps them from overlapping.

    >>> with profile("dispatch") as p:
    ...     with device.command_encoder() as enc:
    ...         enc.dispatch(axpy, x, y, 2.0, threads=4)
    >>> [(row.name, row.calls, row.how) for row in p.rows("kernel")]
    [('axpy', 1, 'simulated')]
    """
    return Profile(level)


def load_profile(path: str | os.PathLike[str]) -> Profile:
    """Reads a profile written by `save`."""
    try:
        table = json.loads(Path(path).read_bytes())
        if table["format"] != FORMAT:
            raise ValueError(f"its format is {table['format']!r}, expected {FORMAT!r}")
        profile = Profile(table["level"])
        for name in ("started_ns", "ended_ns", "wall_ns", "dropped"):
            setattr(profile, name, int(table[name]))
        profile.spans = [from_fields(SpanRecord, each) for each in table["spans"]]
        profile._peaks = Peaks(**table["peaks"]) if table["peaks"] else None
        profile._records = [CommandBufferRecord.from_dict(each) for each in table["command_buffers"]]
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        reason = f"it has no {problem}" if isinstance(problem, KeyError) else problem
        raise InvalidArgument(f"{os.fspath(path)} is not a profile written by p.save(): {reason}") from None
    return profile
