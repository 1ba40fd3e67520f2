"""Progress bars on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["Report", "progress"]

Report = Callable[[int, int], None]
"""Takes the amount done and the total."""


@contextmanager
def progress(title: str, *, stream: TextIO | None = None) -> Iterator[Report]:
    """Shows a progress bar with its rate on standard error during the block, with rich if installed."""
    out = sys.stderr if stream is None else stream
    begin = time.perf_counter()
    if not out.isatty():
        yield lambda done, total: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress, TextColumn
    except ImportError:
        try:
            yield lambda done, total: _line(out, title, done, total, begin)
        finally:
            out.write("\r\x1b[K")
            out.flush()
        return
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, console=Console(file=out), transient=True) as bar:
        task = bar.add_task(title, total=None, rate="")
        yield lambda done, total: bar.update(task, completed=done, total=total, rate=_rate(done, begin))


def _rate(done: int, begin: float) -> str:
    """The rate so far."""
    return f"{done / max(time.perf_counter() - begin, 1e-9):.0f}/s" if done else ""


def _line(out: TextIO, title: str, done: int, total: int, begin: float) -> None:
    share = min(done / total, 1.0) if total > 0 else 0.0
    out.write(f"\r{title} [{'#' * int(share * 30):<30}] {share:4.0%} {done}/{total} {_rate(done, begin)}")
    out.flush()
