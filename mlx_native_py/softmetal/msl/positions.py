"""Where a token stands in the user's own text: line, column, and the line itself."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal

from ..program import Diagnostic
from .lexer import Tokens, is_name

_WORDS = re.compile(
    r'"(?:[^"\\]|\\.)*"|[A-Za-z_$][\w$]*|\.?[0-9][\w.]*|::|->|<<|>>|[=!<>+\-*/%&|^]=|&&|\|\||\+\+|--|\S'
)
_COMMENT = re.compile(r"//.*|/\*.*?\*/")


class Positions:
    """Reads the user's files, only when a message needs them."""

    def __init__(self, source: str, path: str) -> None:
        self.path = path
        self._lines: dict[str, list[str]] = {path: source.splitlines()}

    def source_line(self, file: str, line: int) -> str:
        """A line of a file, or nothing if it cannot be read."""
        if file not in self._lines:
            try:
                self._lines[file] = Path(file).read_text(errors="replace").splitlines()
            except OSError:
                self._lines[file] = []
        lines = self._lines[file]
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def column(self, tokens: Tokens, index: int) -> int:
        """The column of a token; one that a macro made stands where the macro was called."""
        row = tokens.row[index]
        first = index - tokens.nth_in_row(index)
        last = index + 1
        while last < len(tokens) and tokens.row[last] == row:
            last += 1
        return self._aligned(row, tokens.text[first:last], index - first)

    def _aligned(self, row: tuple[str, int], texts: list[str], nth: int) -> int:
        line = _COMMENT.sub(lambda found: " " * len(found[0]), self.source_line(*row))
        words = list(_WORDS.finditer(line))
        if not words:
            return 1
        matcher = SequenceMatcher(None, [word[0] for word in words], texts, autojunk=False)
        after = 0
        matched: set[int] = set()
        for there, here, size in matcher.get_matching_blocks():
            if here <= nth < here + size:
                return words[there + nth - here].start() + 1
            if here > nth:
                break
            after = there + size
            matched.update(range(there, after))
        # The macro is a name that the preprocessor has replaced.
        macros = [i for i in range(min(after + 1, len(words))) if i not in matched and is_name(words[i][0])]
        return words[macros[-1] if macros else min(after, len(words) - 1)].start() + 1

    def diagnostic(
        self, tokens: Tokens, index: int, message: str, severity: Literal["error", "warning"] = "error"
    ) -> Diagnostic:
        """A message at a token."""
        file, line = tokens.row[index]
        return self.at(file, line, self.column(tokens, index), message, severity)

    def at(
        self, file: str, line: int, column: int, message: str, severity: Literal["error", "warning"] = "error"
    ) -> Diagnostic:
        """A message at a place known already."""
        return Diagnostic(severity, message, file, line, column, self.source_line(file, line))
