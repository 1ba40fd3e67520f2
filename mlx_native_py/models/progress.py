"""Progress bars on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["Report", "progress"]

Report = Callable[[int, int], None]
"""Takes what is done and what there is in all."""


@contextmanager
def progress(title: str, *, stream: TextIO | None = None) -> Iterator[Report]:
    """A bar on standard error while the block runs, by rich where it is installed."""
    out = sys.stderr if stream is None else stream
    if not out.isatty():
        yield lambda done, total: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        try:
            yield lambda done, total: _line(out, title, done, total)
        finally:
            out.write("\r\x1b[K")
            out.flush()
        return
    with Progress(console=Console(file=out), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _line(out: TextIO, title: str, done: int, total: int) -> None:
    share = min(done / total, 1.0) if total > 0 else 0.0
    out.write(f"\r{title} [{'#' * int(share * 30):<30}] {share:4.0%}")
    out.flush()
