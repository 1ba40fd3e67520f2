"""The preprocessing step: macros and includes, by clang; every token keeps its file and line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..program import CompileError, CompileOptions, Diagnostic
from ..toolchain import INCLUDE, CompilerFailed, Toolchain
from .diagnostics import parse
from .positions import Positions

HEADERS = INCLUDE / "msl"
_MARKER = re.compile(r'^# \d+ "((?:[^"\\]|\\.)*)"', re.MULTILINE)
_INCLUDE = re.compile(
    r'^[ \t]*#[ \t]*(?:include|import)[ \t]*["<]([^">\n]+)[">]|__has_include\s*\(\s*["<]([^">\n]+)[">]', re.MULTILINE
)


@dataclass(frozen=True)
class Preprocessed:
    """Text without directives, and the files it was made of."""

    text: str
    files: tuple[Path, ...]
    warnings: tuple[Diagnostic, ...]


def preprocess(source: str, options: CompileOptions, path: str, toolchain: Toolchain) -> Preprocessed:
    """Runs the preprocessor; raises CompileError at the user's own line."""
    major, minor = options.language_version
    arguments = ["-undef", "-fms-extensions", "-W#warnings", f"-D__METAL_VERSION__={major * 100 + minor * 10}"]
    arguments += [f"-D{name}={value}" for name, value in options.macros]
    for folder in options.include_paths:
        arguments += ["-I", str(folder)]
    arguments += ["-I", str(HEADERS), "-include", str(HEADERS / "soft_macros.h"), "-fno-color-diagnostics"]
    positions = Positions(source, path)
    try:
        done = toolchain.run(toolchain.preprocess("-", arguments), stdin=source)
    except CompilerFailed as failure:
        found = tuple(_placed(failure.output, positions))
        raise CompileError(found or (positions.at(path, 1, 1, failure.output.strip()),)) from None
    files = dict.fromkeys(name.replace("\\\\", "\\") for name in _MARKER.findall(done.stdout))
    own = [Path(name) for name in files if not name.startswith("<") and not Path(name).is_relative_to(INCLUDE)]
    return Preprocessed(done.stdout, tuple(own), tuple(_placed(done.stderr, positions)))


def _placed(output: str, positions: Positions) -> Iterable[Diagnostic]:
    for message in parse(output):
        if message.severity != "note":
            file = positions.path if message.file == "<stdin>" else message.file
            yield positions.at(file, message.line, message.column, message.text, message.severity)


def closure_state(source: str, options: CompileOptions, files: Iterable[Path]) -> dict[str, str]:
    """The include closure: each file's digest, and the places that hold no file but could hide another."""
    state = {str(path): file_digest(path) for path in files}
    texts = [source, *(Path(name).read_text(errors="replace") for name in state)]
    names = {first or second for text in texts for first, second in _INCLUDE.findall(text)}
    folders = [*map(Path, options.include_paths), *(Path(name).parent for name in list(state))]
    for folder in dict.fromkeys(folders):
        for name in names:
            candidate = str(folder / name)
            if candidate not in state:
                state[candidate] = file_digest(Path(candidate))
    return state


def file_digest(path: Path) -> str:
    """The digest of a file's content; empty where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
