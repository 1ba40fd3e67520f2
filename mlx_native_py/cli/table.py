"""Output of commands: tables and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

import numpy as np

from ..table import Table

__all__ = ["plain", "print_json", "print_table"]


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, file: TextIO | None = None) -> None:
    """Prints a table, with rich on a terminal if it is installed."""
    out = sys.stdout if file is None else file
    print(Table("", head, list(rows), words=head).shown(out), file=out)


def print_json(value: object) -> None:
    """Prints JSON; other types, such as paths, as text."""
    print(json.dumps(value, indent=1, default=str))


def plain(value: object, most: int = 60) -> str:
    """An untrusted value on one line, without control characters, and shortened.

    >>> plain("a\\x1b[2J"), plain(list(range(1000)))
    ('a\\\\x1b[2J', '[0, 1, 2, 3, ...] (1,000)')
    """
    if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes)):
        few = ", ".join(plain(each, 20) for each in value[:4])
        return f"[{few}{', ...' if len(value) > 4 else ''}]" + (f" ({len(value):,})" if len(value) > 4 else "")
    text = str(value)
    short = text if len(text) <= most else f"{text[: most - 3]}..."
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in short)
