"""Preprocessing by clang: macros and includes, with file and line of every token."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ..program import CompileError, Diagnostic, SourceOptions
from ..toolchain import CompilerFailed, Toolchain
from .diagnostics import parse
from .includes import HEADERS, absolute, is_inside, is_plain_file, visible_files
from .positions import MOST_MESSAGES, Positions

_MARKER = re.compile(r'^# \d+ "((?:[^"\\]|\\.)*)"', re.MULTILINE)
_EMBED = "'#embed' is not supported in Metal"
_MACRO = re.compile(r"[A-Za-z_$][\w$]*(\([\w$, .]*\))?", re.ASCII)
_INCLUDE = re.compile(
    r'^[ \t]*#[ \t]*(?:include|import)[ \t]*["<]([^">\n]+)[">]|__has_include\s*\(\s*["<]([^">\n]+)[">]', re.MULTILINE
)


# A few lines of macros can stand for any length, and what reads the result takes time and memory in proportion.
LONGEST = 4_000_000


@dataclass(frozen=True)
class Preprocessed:
    """The preprocessed text, and the files it was made from."""

    text: str
    files: tuple[Path, ...]
    warnings: tuple[Diagnostic, ...]


def preprocess(source: str, options: SourceOptions, path: str, toolchain: Toolchain) -> Preprocessed:
    """Runs the preprocessor; raises CompileError at the user's own line."""
    positions = Positions(source, path, options.include_paths)
    folders = absolute(options.include_paths)
    major, minor = options.language_version
    arguments = ["-undef", "-fms-extensions", "-W#warnings", f"-D__METAL_VERSION__={major * 100 + minor * 10}"]
    arguments += [f"-D{name}={value}" for name, value in options.macros]
    for folder in (*folders, HEADERS):
        arguments += ["-I", str(folder)]
    arguments += [
        "-include",
        str(HEADERS / "soft_macros.h"),
        "-fno-color-diagnostics",
        "-Werror=c23-extensions",
        "-Werror=date-time",
    ]
    try:
        with visible_files(folders) as visible:
            done = toolchain.run(toolchain.preprocess("-", [*arguments, *visible]), stdin=source)
    except CompilerFailed as failure:
        faults = tuple(_placed(failure.output, positions))
        raise CompileError(faults or (positions.at(path, 1, 1, failure.output.strip()),)) from None
    if len(done.stdout) > LONGEST:
        what = f"the source has {len(done.stdout):,} characters with its macros and includes expanded"
        raise CompileError((positions.at(path, 1, 1, f"{what}, expected at most {LONGEST:,}"),))
    files = dict.fromkeys(name.replace("\\\\", "\\") for name in _MARKER.findall(done.stdout))
    own = [Path(name) for name in files if is_inside(name, folders)]
    return Preprocessed(done.stdout, tuple(own), tuple(islice(_placed(done.stderr, positions), MOST_MESSAGES)))


def check_characters(source: str, options: SourceOptions, path: str) -> None:
    """Refuses what no file of text can hold, in the source and in its macros."""
    foreign = [(column, line) for line, text in enumerate(source.split("\n"), 1) for column in _foreign(text)]
    if foreign:
        column, line = foreign[0]
        character = source.split("\n")[line - 1][column - 1]
        what = f"character U+{ord(character):04X} is not allowed in a source"
        raise CompileError((Diagnostic("error", what, path, line, column),))
    for name, value in options.macros:
        if not _MACRO.fullmatch(name) or "\n" in value or any(_foreign(value)):
            what = f"preprocessor macro {name!r} = {value!r} is not a name with a value of one line"
            raise CompileError((Diagnostic("error", what, path, 1, 1),))


def _foreign(text: str) -> list[int]:
    """The columns of characters that have no place in UTF-8, or end strings in C."""
    if text.isascii() and "\0" not in text:
        return []
    return [n for n, character in enumerate(text, 1) if character == "\0" or "\ud800" <= character <= "\udfff"]


def _placed(output: str, positions: Positions) -> Iterable[Diagnostic]:
    for message in parse(output):
        if message.severity != "note":
            file = positions.path if message.file == "<stdin>" else message.file
            text = _EMBED if message.text.startswith("#embed is") else message.text
            yield positions.at(file, message.line, message.column, text, message.severity)


def closure_state(source: str, options: SourceOptions, files: Iterable[Path]) -> dict[str, str]:
    """The include closure: each file's digest, and the places that hold no file but could hide another."""
    state = {str(path): file_digest(path) for path in files}
    texts = [source, *(Path(name).read_text(errors="replace") for name in state if is_plain_file(Path(name)))]
    names = {first or second for text in texts for first, second in _INCLUDE.findall(text)}
    given = absolute(options.include_paths)
    folders = [*given, *(Path(name).parent for name in list(state))]
    for folder in dict.fromkeys(folders):
        for name in names:
            candidate = str(folder / name)
            if candidate not in state and is_inside(candidate, given):
                state[candidate] = file_digest(Path(candidate))
    return state


def file_digest(path: Path) -> str:
    """The digest of a file's content; empty where there is none."""
    if not is_plain_file(path):
        return ""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
