"""Source files, and inlining of headers: Metal compiles a text, which has no folder to find `#include "..."` files in.

Only files inside the source's folder or the given folders are included, so that an untrusted source cannot read other
files. `#line` directives keep file names and line numbers in messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from zlib import crc32

from ..errors import InvalidArgument, MissingFileError

__all__ = ["Folders", "source_with_headers"]

Folders = Iterable[Path | str]
"""Folders of headers."""

_INCLUDE = re.compile(r'\s*#\s*(?:include|import)\s*"([^"\n]+)"')
_ONCE = re.compile(r"\s*#\s*pragma\s+once\b")
_NO_NAME = re.compile(r'["\\\x00-\x1f\x7f]')
_DEEPEST = 64


def source_with_headers(path: Path, include: Folders = ()) -> str:
    """The text of a file with its headers inlined, from its own folder and those of `include`.

    A header that is not found is left for the compiler to report.
    """
    others, text = _folders(include), _text_of(path)
    folders = [folder.resolve() for folder in (path.parent, *others)]
    if not text.strip():
        raise InvalidArgument(f"{path} is empty; expected MSL source")
    return "\n".join(_Inlining(folders).lines(path, text)) + "\n"


def _folders(include: Folders) -> list[Path]:
    if isinstance(include, (str, Path)) or not all(isinstance(each, (str, Path)) for each in include):
        raise InvalidArgument(f"include is {include!r}, expected a list of folders")
    folders = [Path(each) for each in include]
    for folder in folders:
        if not folder.is_dir():
            raise MissingFileError(f"there is no folder {folder}, which include= names")
    return folders


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MissingFileError(f"there is no file {path}") from None
    except OSError as problem:
        raise InvalidArgument(f"{path} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise InvalidArgument(
            f"{path} is not UTF-8: byte {problem.start} is {problem.object[problem.start]:#x}"
        ) from None
    except ValueError as problem:  # a path with NUL, or half a character
        raise InvalidArgument(f"{str(path)!r} cannot be read: {problem}") from None


class _Inlining:
    """Replaces `#include` lines by the text of the headers."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._open: list[Path] = []
        """The chain of files being included."""

    def lines(self, path: Path, text: str) -> Iterator[str]:
        name = self._name(path.resolve())
        self._open.append(path.resolve())
        yield f'#line 1 "{name}"'
        for number, line in enumerate(text.splitlines(), 1):
            header = self._header(path, number, line)
            if header is None:
                yield line
                continue
            yield from self._inlined(header)
            yield f'#line {number + 1} "{name}"'
        self._open.pop()

    def _name(self, file: Path) -> str:
        """A file in messages: its place in the first folder that contains it."""
        inside = next((file.relative_to(each) for each in self._folders if file.is_relative_to(each)), file.name)
        return _NO_NAME.sub("_", Path(inside).as_posix())

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
                    f"{path.name}:{number}:{match.start(1)}: {match[1]!r} is outside of {self._folders[0]}; "
                    "if that is meant, name its folder with include="
                )
            return header
        return None

    def _inlined(self, header: Path) -> Iterator[str]:
        # A file that includes itself has an include guard, so the inner include is empty.
        if header in self._open:
            return
        if len(self._open) >= _DEEPEST:
            raise InvalidArgument(f"{header.name}: includes are nested more than {_DEEPEST} files deep")
        lines = _text_of(header).splitlines()
        guard = f"MLX_NATIVE_ONCE_{crc32(bytes(header)):08X}"
        once = any(map(_ONCE.match, lines))
        if once:
            yield f"#ifndef {guard}"
            yield f"#define {guard}"
        yield from self.lines(header, "\n".join("" if _ONCE.match(line) else line for line in lines))
        if once:
            yield "#endif"
