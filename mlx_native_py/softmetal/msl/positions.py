"""Source positions of tokens: line, column and the text of the line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Literal

from ..program import Diagnostic
from ..source_lines import lines_of
from .includes import HEADERS, absolute, is_inside, is_plain_file
from .lexer import Tokens, is_name

_WORDS = re.compile(
    r'"(?:[^"\\]|\\.|\\$)*(?:"|$)|\'(?:[^\'\\]|\\.){1,10}\'|[A-Za-z_$][\w$]*|\.?[0-9][\w.]*|::|->|<<|>>|[=!<>+\-*/%&|^]=|&&|\|\||\+\+|--|\S'
)
MOST_MESSAGES = 100  # of each kind: each takes time to place, and nobody reads so many
LONGEST_QUOTED = 1 << 16  # all of them may be about the same line
_MOST_COMPARED = 1 << 16  # comparing two lists takes time that grows with both lengths
_COMMENT = re.compile(r"//.*|/\*.*?(?:\*/|$)")


class Positions:
    """Reads the user's files, only when a message needs them."""

    def __init__(self, source: str, path: str, folders: Iterable[Path] = ()) -> None:
        self.path = path
        self._source = source
        self._folders = (*absolute(folders), HEADERS)
        self._files: dict[str, list[str]] = {}
        self._words: dict[tuple[str, int], list[re.Match[str]]] = {}  # of the line asked for last

    def source_line(self, file: str, line: int) -> str:
        """A line of the source, also of a file that it names by #line, or of a header; nothing if it cannot be read."""
        if (file, line) in self._own_lines:
            return self._own_lines[file, line]
        if file not in self._files:
            # A #line directive may name any file of the machine.
            readable = is_inside(file, self._folders) and is_plain_file(Path(file))
            self._files[file] = Path(file).read_text(errors="replace").splitlines() if readable else []
        lines = self._files[file]
        return lines[line - 1] if 0 < line <= len(lines) else ""

    @cached_property
    def _own_lines(self) -> dict[tuple[str, int], str]:
        return lines_of(self._source, self.path)[0]

    def column(self, tokens: Tokens, index: int) -> int:
        """The column of a token; one that a macro made stands where the macro was called."""
        row = tokens.row[index]
        first = index - tokens.nth_in_row(index)
        last = index + 1
        while last < len(tokens) and tokens.row[last] == row:
            last += 1
        return self._aligned(row, tokens.text[first:last], index - first)

    def _aligned(self, row: tuple[str, int], texts: list[str], nth: int) -> int:
        words = self._words_of(row)
        if not words:
            return 1
        spelled = [word[0] for word in words]
        before = _common(spelled, texts)
        if nth < before:
            return words[nth].start() + 1
        after = _common(spelled[before:][::-1], texts[before:][::-1])
        if len(texts) - nth <= after:
            return words[nth - len(texts)].start() + 1
        inner = spelled[before : len(spelled) - after]
        place = _inside_macro(inner, texts[before : len(texts) - after], nth - before)
        return words[min(before + place, len(words) - 1)].start() + 1

    def _words_of(self, row: tuple[str, int]) -> list[re.Match[str]]:
        if row not in self._words:
            line = _COMMENT.sub(lambda found: " " * len(found[0]), self.source_line(*row))
            self._words = {row: list(_WORDS.finditer(line))}
        return self._words[row]

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
        quoted = self.source_line(file, line)
        return Diagnostic(severity, message, file, line, column, quoted if len(quoted) <= LONGEST_QUOTED else "")


def _common(one: list[str], other: list[str]) -> int:
    """How many words two lists begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _inside_macro(words: list[str], texts: list[str], nth: int) -> int:
    """The word of a line that the preprocessor's `nth` token came from: itself, or the macro that made it."""
    if len(words) * len(texts) > _MOST_COMPARED:
        return next((i for i, word in enumerate(words) if is_name(word)), 0)
    after = 0
    matched: set[int] = set()
    for there, here, size in SequenceMatcher(None, words, texts, autojunk=False).get_matching_blocks():
        if here <= nth < here + size:
            return there + nth - here
        if here > nth:
            break
        after = there + size
        matched.update(range(there, after))
    macros = [i for i in range(min(after + 1, len(words))) if i not in matched and is_name(words[i])]
    return macros[-1] if macros else max(0, min(after, len(words) - 1))
