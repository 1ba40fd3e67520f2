"""Small HTML tables, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]

_LEFT = ' style="text-align:left"'


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A title and a table under it; all texts are escaped.

    >>> html_table("a<b", (), [])
    '<code>a&lt;b</code><table><tr></tr></table>'
    """
    lines = [_line("th", head), *(_line("td", row) for row in rows)]
    return f"<code>{escape(title)}</code><table>{''.join(lines)}</table>"


def _line(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}{_LEFT}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
