"""The syntax check of a whole source by clang, with errors at the user's lines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..engines.choice import scalar_engine
from ..program import CompileError, Diagnostic, SourceOptions
from ..threads import on_threads
from ..toolchain import CompilerFailed
from . import diagnostics
from .build import SOURCE_NAME, WHOLE, check_defines
from .compiler import Compiler
from .emit import Piece, Segment, assemble, locate
from .known_bodies import known_bodies, remember
from .manifest import LibraryManifest
from .remarks import refuse_remarked
from .translate import Translation

MOST_INSTANTIATIONS = 32  # that are checked when the library is made; of more, each when its kernel is asked for
MOST_KERNELS = 32  # whose bodies one process checks

Wanted = Callable[[Piece | Segment], bool]


def check_whole(
    manifest: LibraryManifest, translation: Translation, options: SourceOptions, compiler: Compiler
) -> None:
    """Checks what the source does not share with an earlier one; all of it if that is refused."""
    instantiations = 0 < sum(piece.kind == "instantiation" for piece in manifest.pieces) <= MOST_INSTANTIATIONS
    setting = f"{options.math_mode} {manifest.textures}"
    known = known_bodies(manifest, translation, setting, compiler.checked, instantiations=instantiations)
    shares = [frozenset[str]()] if instantiations else _shares(manifest)

    def check(left_out: frozenset[str]) -> None:
        wanted = [_Share(others | left_out, instantiations) for others in shares]
        faults = on_threads(partial(_errors, manifest, translation, options, compiler), wanted, len(wanted))
        errors = dict.fromkeys(error for share in faults for error in share)
        if errors:
            raise CompileError(tuple(sorted(errors, key=lambda error: (error.file, error.line, error.column))))

    try:
        check(known)
    except (CompileError, CompilerFailed):
        if not known:
            raise
        # Names may have misled about what the rest needs.
        check(frozenset())
    remember(manifest, setting, compiler.checked)


@dataclass(frozen=True)
class _Share:
    """A source without some function bodies: known ones, and kernels checked by other processes."""

    left_out: frozenset[str]
    instantiations: bool

    def __call__(self, part: Piece | Segment) -> bool:
        return part.owner not in self.left_out and (self.instantiations or part.kind != "instantiation")


def _shares(manifest: LibraryManifest) -> list[frozenset[str]]:
    """For each process, the kernels that others look at."""
    named = Counter(function.name.rpartition("::")[2] for function in manifest.functions)
    bodies = Counter(piece.owner for piece in manifest.pieces if piece.kind == "body")
    kernels = sorted(name for name in named if bodies[name] == named[name])  # no plain function has the name too
    count = max(1, min(os.cpu_count() or 1, -(-len(kernels) // MOST_KERNELS)))
    return [frozenset(kernels) - frozenset(kernels[number::count]) for number in range(count)]


def _errors(
    manifest: LibraryManifest, translation: Translation, options: SourceOptions, compiler: Compiler, wanted: Wanted
) -> tuple[Diagnostic, ...]:
    try:
        check_part(manifest, translation, options, compiler, wanted)
    except CompileError as refused:
        return refused.diagnostics
    return ()


def check_part(
    manifest: LibraryManifest, translation: Translation, options: SourceOptions, compiler: Compiler, wanted: Wanted
) -> None:
    """Checks the wanted pieces; raises CompileError."""
    before = check_defines(manifest)
    # The header that its kernels will be compiled with; all declare the same.
    engine, _ = scalar_engine(compiler.engine, checked=False, waits=sorted(manifest.waiting))
    flags = compiler.flags(options.math_mode, engine)
    with compiler.store.scratch() as folder:
        file = folder / SOURCE_NAME
        file.write_text(f"{before}\n{assemble(manifest.pieces, wanted)}\n")
        arguments = [*flags, "-include-pch", str(compiler.precompiled(flags)), *WHOLE, "-ferror-limit=20"]
        try:
            remarks = compiler.toolchain.run(compiler.toolchain.check_syntax(file, arguments)).stderr
            refuse_remarked(remarks, file, manifest.is_called)
        except CompilerFailed as failure:
            raise refusal(failure, translation, before.count("\n") + 1, wanted) from None


def everything(part: Piece | Segment) -> bool:
    """Wants every piece of a source."""
    return True


def refusal(
    failure: CompilerFailed, translation: Translation, before: int, wanted: Callable[[Segment], bool]
) -> Exception:
    """The failure as the user's errors; the failure itself if it says nothing about the source."""
    reasons = _explain(failure, translation, before, wanted)
    return CompileError(reasons) if reasons else failure


def _explain(
    failure: CompilerFailed, translation: Translation, before: int, wanted: Callable[[Segment], bool]
) -> tuple[Diagnostic, ...]:
    names = {message.file for message in diagnostics.parse(failure.output)}
    file = next((name for name in names if name.endswith(SOURCE_NAME)), SOURCE_NAME)

    def find(line: int, column: int) -> int:
        return locate(translation.unit, translation.segments, wanted, line - before, column)

    explained = diagnostics.explain(failure.output, file, translation.unit, find)
    return tuple(diagnostic for diagnostic in explained if diagnostic.severity == "error")
