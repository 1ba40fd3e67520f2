"""Tables: plain text in a pipe, colours in a terminal, HTML in a notebook."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, TextIO

__all__ = ["Table"]

_CSS = "text-align:{};padding:2px 10px;font-variant-numeric:tabular-nums;white-space:nowrap"


@dataclass(frozen=True)
class Table:
    """Rows of text cells with a title and footnotes; `records` has the underlying values.

    >>> print(Table("", ("name", "calls"), [("x", "4"), ("weights", "64")]).text())
    name     calls
    x            4
    weights     64
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    records: Sequence[dict[str, Any]] = ()
    words: Sequence[str] = ("name",)
    """Names of the left-aligned columns."""

    def text(self) -> str:
        """The table in plain columns."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[at]) for line in lines) for at in range(len(self.head))]
        told = [self.title] if self.title else []
        for line in lines:
            cells = [
                cell.ljust(width) if head in self.words else cell.rjust(width)
                for head, cell, width in zip(self.head, line, widths, strict=True)
            ]
            told.append("  ".join(cells).rstrip())
        return "\n".join([*told, *self.notes])

    def __rich__(self) -> Any:
        """The table for rich."""
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=self.title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for head in self.head:
            left = head in self.words
            table.add_column(head, justify="left" if left else "right", no_wrap=not left, style="cyan" if left else "")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return Group(table, *(Text(note, style="dim") for note in self.notes))

    def shown(self, out: TextIO | None) -> str:
        """Coloured if `out` is a terminal and rich is installed, otherwise plain."""
        if out is None or not out.isatty():
            return self.text()
        try:
            from rich.console import Console
        except ImportError:
            return self.text()
        printed = StringIO()
        Console(file=printed, force_terminal=True, width=Console(file=out).width).print(self)
        return printed.getvalue().rstrip("\n")

    def __str__(self) -> str:
        return self.shown(sys.stdout)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table for notebooks."""
        sides = ["left" if head in self.words else "right" for head in self.head]

        def line(tag: str, cells: Sequence[str]) -> str:
            told = (
                f'<{tag} style="{_CSS.format(side)}">{html.escape(cell).replace("  ", "&emsp;")}</{tag}>'
                for side, cell in zip(sides, cells, strict=True)
            )
            return f"<tr>{''.join(told)}</tr>"

        body = "".join(line("td", row) for row in self.rows)
        notes = "".join(f'<div style="opacity:.7">{html.escape(note)}</div>' for note in self.notes)
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        return f"<table>{title}<thead>{line('th', self.head)}</thead><tbody>{body}</tbody></table>{notes}"
