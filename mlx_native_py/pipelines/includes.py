"""Inlining of headers: Metal compiles a text, which has no folder to find `#include "..."` files in.

Only files inside the source's folder or the given folders are included, so that an untrusted source cannot read other
files. `#line` directives keep file names and line numbers in messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

from ..errors import InvalidArgument

__all__ = ["source_with_headers"]

_INCLUDE = re.compile(r'\s*#\s*(?:include|import)\s*"([^"\n]+)"')
_ONCE = re.compile(r"\s*#\s*pragma\s+once\b")
_DEEPEST = 64


def source_with_headers(path: Path, include: Sequence[Path] = ()) -> str:
    """The text of a file with its headers inlined, from its own folder and those of `include`.

    A header that is not found is left for the compiler to report.
    """
    folders = [folder.resolve() for folder in (path.parent, *include)]
    text = path.read_text(encoding="utf-8")
    if not any(map(_INCLUDE.match, text.splitlines())):
        return text
    return "\n".join(_Inlining(folders).lines(path, text)) + "\n"


class _Inlining:
    """Replaces `#include` lines by the text of the headers."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._open: list[Path] = []
        """The chain of files being included."""

    def lines(self, path: Path, text: str) -> Iterator[str]:
        self._open.append(path.resolve())
        for number, line in enumerate(text.splitlines(), 1):
            header = self._header(path, number, line)
            if header is None:
                yield line
                continue
            yield from self._inlined(header)
            yield f'#line {number + 1} "{path.name}"'
        self._open.pop()

    def _header(self, path: Path, number: int, line: str) -> Path | None:
        """The file that a line includes; None if it includes none of ours."""
        match = _INCLUDE.match(line)
        if match is None:
            return None
        for folder in (path.parent.resolve(), *self._folders):
            header = (folder / match[1]).resolve()
            if not header.is_file():
                continue
            if not any(header.is_relative_to(allowed) for allowed in self._folders):
                raise InvalidArgument(
                    f"{path.name}:{number}: {match[1]!r} is outside of {self._folders[0]}; "
                    "if that is meant, name its folder with include= (--include on the command line)"
                )
            return header
        return None

    def _inlined(self, header: Path) -> Iterator[str]:
        # A file that includes itself has an include guard, so the inner include is empty.
        if header in self._open:
            return
        if len(self._open) >= _DEEPEST:
            raise InvalidArgument(f"{header.name}: includes are nested more than {_DEEPEST} files deep")
        text = header.read_text(encoding="utf-8")
        guard = f"MLX_NATIVE_ONCE_{crc32(bytes(header)):08X}"
        lines = text.splitlines()
        once = any(map(_ONCE.match, lines))
        if once:
            yield f"#ifndef {guard}"
            yield f"#define {guard}"
        yield f'#line 1 "{header.name}"'
        yield from self.lines(header, "\n".join("" if _ONCE.match(line) else line for line in lines))
        if once:
            yield "#endif"
