"""Short ways to translate and open MSL in the front end's own tests."""

from __future__ import annotations

from pathlib import Path

from mlx_native_py.softmetal import msl
from mlx_native_py.softmetal.msl.manifest import LibraryManifest, make_manifest
from mlx_native_py.softmetal.msl.positions import Positions
from mlx_native_py.softmetal.msl.translate import Translation, translate
from mlx_native_py.softmetal.program import CompileError, Diagnostic, SourceOptions

HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"


def translated(source: str) -> Translation:
    """A source that needs no preprocessor, after all passes."""
    return translate(source, Positions(source, "program_source"))


def manifest(source: str) -> LibraryManifest:
    """What is kept of a translated source."""
    return make_manifest(translated(source), {}, ())


def text(source: str) -> str:
    """The translated text, without line breaks and with single spaces."""
    return " ".join(" ".join(piece.text for piece in manifest(source).pieces).split())


def opened(source: str, **options: object) -> msl.SourceLibrary:
    """A library of `source` under the usual two lines."""
    return msl.open_library(HEADER + source, SourceOptions(**options))  # type: ignore[arg-type]


def refusals(source: str, include_paths: tuple[Path, ...] = ()) -> tuple[Diagnostic, ...]:
    """The errors of a source, its own first line being line 1."""
    try:
        msl.open_library(source, SourceOptions(include_paths=include_paths))
    except CompileError as refused:
        return refused.diagnostics
    return ()
