"""A line at the bottom of a terminal that says what is under way."""

from __future__ import annotations

import shutil
import sys
from types import TracebackType

__all__ = ["StatusLine"]

_ERASE = "\r\x1b[K"
_MORE = " ... "


class StatusLine:
    """Each text replaces the one before, on standard error; nothing is written if that is no terminal."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._text = ""

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, text: str) -> None:
        """Replaces the line."""
        if self._shows and text != self._text:
            self._write(text)

    def clear(self) -> None:
        """Removes the line, before something else is printed."""
        if self._text:
            self._write("")

    def _write(self, text: str) -> None:
        self._text = text
        width = shutil.get_terminal_size().columns - len(_MORE) - 1
        # What the log says meanwhile stands behind it.
        sys.stderr.write(_ERASE + (text[:width] + _MORE if text else ""))
        sys.stderr.flush()
