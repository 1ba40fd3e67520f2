"""Source lines by file and number; inlined headers are marked by `#line`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from .program import Diagnostic

Locate = Callable[[int, int], Diagnostic | None]
"""Finds a place in the user's text from a line and a column that the compiler saw."""

_LINE = re.compile(r'\s*#\s*(?:line\s+)?(\d++)(?:\s+"([^"]*)")?[\s\d]*$')


def quoting(locate: Locate, source: str) -> Locate:
    """The same with the line itself, whichever file it is from; the file is empty for the source's own."""
    lines, own = lines_of(source)

    def located(line: int, column: int) -> Diagnostic | None:
        where = locate(line, column)
        if where is None:
            return None
        file = where.file if any(file == where.file for file, _ in lines) and where.file != own else ""
        text = where.source_line or lines.get((file or own, where.line)) or lines.get(("", where.line), "")
        return replace(where, file=file, source_line=text)

    return located


def lines_of(source: str, name: str = "") -> tuple[dict[tuple[str, int], str], str]:
    """All lines, and the name of the source's own file, to which the last directive comes back; often only `name`."""
    lines: dict[tuple[str, int], str] = {}
    file, number = name, 0
    for text in source.splitlines():
        directive = _LINE.match(text)
        if directive:
            number, file = int(directive[1]) - 1, directive[2] or file
        else:
            number += 1
            lines[file, number] = text
    return lines, file


def place_name(file: str, line: int) -> str:
    """`12`, or `header.h:12`.

    >>> place_name("", 12), place_name("reduce.h", 3)
    ('12', 'reduce.h:3')
    """
    return f"{file}:{line}" if file else str(line)
