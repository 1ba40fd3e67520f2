"""Profile rows as a table."""

from __future__ import annotations

from collections.abc import Sequence

from ..table import Table
from .summary import By, Row

__all__ = ["profile_table"]


def profile_table(by: By, rows: Sequence[Row], title: str, notes: Sequence[str], most: int | None) -> Table:
    """A table of the first `most` rows of a profile."""
    head = (by, "calls", "GPU us", "mean us", "share", "GB/s", "GFLOP/s", "% peak", "barriers", "gaps us", "encode us")
    shown = rows if most is None else rows[:most]
    more = [f"... and {len(rows) - len(shown)} more rows"] if len(rows) > len(shown) else []
    return Table(
        title,
        (*head, "how"),
        [_cells(row) for row in shown],
        [*more, *notes],
        [row.as_dict() for row in rows],
        words=(by, "how"),
    )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        "  " * row.depth + row.name,
        f"{row.calls:,}{'*' if row.warm_up else ''}",
        f"{row.gpu_ns / 1e3:,.1f}",
        f"{row.mean_ns / 1e3:,.1f}",
        f"{row.share:.1%}",
        "" if row.gbps is None else f"{row.gbps:.2f}",
        "" if row.gflops is None else f"{row.gflops:.2f}",
        "" if row.peak is None else f"{row.peak:.0%}",
        f"{row.barriers:,}" if row.barriers else "",
        f"{row.gap_ns / 1e3:,.1f}" if row.gap_ns else "",
        f"{row.encode_ns / 1e3:,.1f}",
        row.how,
    )
