"""What commands print: tables on a terminal and in pipes, and JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

import numpy as np

from ..table import Table

__all__ = ["plain", "print_json", "print_table"]


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, file: TextIO | None = None) -> None:
    """With rich where it is installed and somebody looks, else in plain columns."""
    out = sys.stdout if file is None else file
    print(Table("", head, list(rows), words=head).shown(out), file=out)


def print_json(value: object) -> None:
    """One JSON value; what JSON does not know, such as a path, is written as its text."""
    print(json.dumps(value, indent=1, default=str))


def plain(value: object, most: int = 60) -> str:
    """A value out of a stranger's file on one line: no control characters, and not too much of it.

    >>> plain("a\\x1b[2J"), plain(list(range(1000)))
    ('a\\\\x1b[2J', '[0, 1, 2, 3, ...] (1,000)')
    """
    if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes)):
        few = ", ".join(plain(each, 20) for each in value[:4])
        return f"[{few}{', ...' if len(value) > 4 else ''}]" + (f" ({len(value):,})" if len(value) > 4 else "")
    text = str(value)
    short = text if len(text) <= most else f"{text[: most - 3]}..."
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in short)
