"""Libraries: a checked source, its kernels and their builds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

from ..cache import digest
from ..compiler_process import in_time
from ..program import ArgumentMember, CompileError, Constant, Diagnostic, Executable, KernelSignature, SourceOptions
from ..time_limit import stopped_in_time
from ..toolchain import CompilerFailed
from .argument_structs import argument_members
from .build import BuildSpec, MissingConstant, compile_spec, load
from .compiler import Compiler, open_compiler
from .emit import locate
from .image import ImageRefused
from .lanes import with_lanes
from .manifest import LibraryManifest, make_manifest
from .positions import Positions
from .preprocess import check_characters, closure_state, file_digest, preprocess
from .syntax import check_part, check_whole, everything, refusal
from .translate import Translation, translate


class _Kernels(Mapping[str, KernelSignature]):
    """Signatures, created on demand."""

    def __init__(self, manifest: LibraryManifest) -> None:
        self._manifest = manifest
        self._made: dict[str, KernelSignature] = {}

    def __getitem__(self, name: str) -> KernelSignature:
        if name not in self._made:
            function = self._manifest.functions[self._manifest.entries[name].function]
            arguments = tuple(item.argument for item in function.items if item.argument)
            reached = self._manifest.reached(name)
            constants: list[Constant] = [b.constant for n, b in self._manifest.constants.items() if n in reached]
            self._made[name] = KernelSignature(name, arguments, tuple(constants), function.max_threads)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._manifest.entries)

    def __len__(self) -> int:
        return len(self._manifest.entries)


class SourceLibrary:
    """A library from source; `build` is thread-safe."""

    def __init__(
        self, source: str, options: SourceOptions, path: str, compiler: Compiler, manifest: LibraryManifest, key: str
    ) -> None:
        self.kernels: Mapping[str, KernelSignature] = _Kernels(manifest)
        self.warnings = manifest.warnings
        self._source = source
        self._options = options
        self._path = path
        self._compiler = compiler
        self._manifest = manifest
        self._key = key
        self._built: dict[str, Executable] = {}
        self._locks: dict[str, Lock] = {}  # by build: different kernels are made side by side

    def build(self, name: str, constants: Mapping[int, bytes], *, checked: bool = False) -> Executable:
        """Compiles kernel `name` with constant values by index; raises CompileError, or KeyError for no such kernel."""
        spec = BuildSpec(self._manifest, name, constants, checked, self._options.math_mode)
        key = spec.key(self._key, self._compiler.engine)
        with self._locks.setdefault(key, Lock()):
            if key not in self._built:
                executable = self._stored(spec, key) or self._make_once(spec, key)
                executable = replace(executable, locate=partial(self._locate, replace(spec, whole=executable.whole)))
                self._built[key] = with_lanes(executable, spec, self._compiler, key)
            return self._built[key]

    def argument_members(self, type_name: str) -> tuple[ArgumentMember, ...]:
        """The members of a struct of the source; raises ValueError where an argument encoder cannot set them."""
        return argument_members(self._translated().unit, type_name)

    def _stored(self, spec: BuildSpec, key: str) -> Executable | None:
        body = self._compiler.store.record(key)
        return load(spec, self._compiler, body) if body else None

    def _make_once(self, spec: BuildSpec, key: str) -> Executable:
        """Makes a build, unless another process has by now."""
        with self._compiler.store.once(key):
            return self._stored(spec, key) or self._make(spec, key)

    def _make(self, spec: BuildSpec, key: str) -> Executable:
        return in_time(self._compiler.toolchain.limits, partial(self._made, spec, key))

    def _made(self, spec: BuildSpec, key: str) -> Executable:
        try:
            body = compile_spec(spec, self._compiler)
        except MissingConstant as missing:
            raise CompileError((self._at_constant(missing),)) from None
        except (CompilerFailed, ImageRefused) as failure:
            if spec.whole:
                raise self._refusal(spec, failure) from None
            # Names may have misled about what the kernel needs; the whole source decides.
            return self._made(replace(spec, whole=True), key)
        self._compiler.store.put_record(key, body)
        executable = load(spec, self._compiler, body)
        if executable is None:
            raise RuntimeError(f"the compiled kernel {spec.entry} vanished from the cache")
        return executable

    def _translated(self) -> Translation:
        """The way back to the user's lines is not kept; a message that needs it pays for it."""
        text = preprocess(self._source, self._options, self._path, self._compiler.toolchain).text
        positions = Positions(self._source, self._path, self._options.include_paths)
        work = partial(translate, text, positions, self._options.language_version)
        return stopped_in_time(self._compiler.toolchain.limits, work)

    def _locate(self, spec: BuildSpec, line: int, column: int) -> Diagnostic | None:
        """The user's own place of one in the text that was compiled; None where included files are gone by now."""
        try:
            translation = self._translated()
        except (OSError, CompileError, CompilerFailed):
            return None
        before = spec.defines().count("\n") + 1
        index = locate(translation.unit, translation.segments, spec.wanted, line - before, column)
        return translation.unit.positions.diagnostic(translation.unit.tokens, index, "") if index >= 0 else None

    def _at_constant(self, missing: MissingConstant) -> Diagnostic:
        return _at_constant(missing, self._translated())

    def _refusal(self, spec: BuildSpec, failure: CompilerFailed | ImageRefused) -> Exception:
        translation = self._translated()
        if isinstance(failure, ImageRefused):
            return CompileError((_at_symbol(failure, spec, translation),))
        try:
            # An instantiation that was not looked at before may be to blame.
            check_part(make_manifest(translation, {}, ()), translation, self._options, self._compiler, everything)
        except CompileError as refused:
            return refused
        return refusal(failure, translation, spec.defines().count("\n") + 1, spec.wanted)


def _at_constant(missing: MissingConstant, translation: Translation) -> Diagnostic:
    unit = translation.unit
    index = next((i for i, text in enumerate(unit.tokens.text) if text == missing.name), 0)
    return unit.positions.diagnostic(unit.tokens, index, str(missing))


def _at_symbol(refused: ImageRefused, spec: BuildSpec, translation: Translation) -> Diagnostic:
    """The refusal of a compiled kernel, where the source calls what it is about, else at the kernel."""
    unit = translation.unit
    text = unit.tokens.text
    places = [index for index, token in enumerate(text) if token == refused.name]
    called = [index for index in places if text[index + 1 : index + 2] == ["("]]
    # The last call is a call; the first may be the declaration.
    index = (called or places or [translation.entries[spec.entry].token])[-1]
    return unit.positions.diagnostic(unit.tokens, index, str(refused))


def open_library(
    source: str, options: SourceOptions, *, path: str = "program_source", compiler: Compiler | None = None
) -> SourceLibrary:
    """A library of the kernels in `source`; raises CompileError."""
    check_characters(source, options, path)
    compiler = compiler or open_compiler()
    key = digest("library", compiler.identity, source, path, repr(options))
    manifest = _known(compiler, key)
    if manifest is None:
        with compiler.store.once(key):
            check = partial(_checked, source, options, path, compiler, key)
            manifest = _known(compiler, key) or in_time(compiler.toolchain.limits, check)
    return SourceLibrary(source, options, path, compiler, manifest, _version(key, manifest))


def _version(key: str, manifest: LibraryManifest) -> str:
    """A library's key for its builds: included files may change behind an unchanged source."""
    return digest(key, json.dumps(manifest.closure, sort_keys=True))


def _known(compiler: Compiler, key: str) -> LibraryManifest | None:
    body = compiler.store.record(key)
    if body is None:
        return None
    manifest = LibraryManifest.from_json(body)
    current = all(file_digest(Path(name)) == known for name, known in manifest.closure.items())
    return manifest if current else None


def _checked(source: str, options: SourceOptions, path: str, compiler: Compiler, key: str) -> LibraryManifest:
    """Translates the source, lets clang check it, and keeps what is known of it."""
    done = preprocess(source, options, path, compiler.toolchain)
    closure, limits = closure_state(source, options, done.files), compiler.toolchain.limits
    positions = Positions(source, path, options.include_paths)
    translation = stopped_in_time(limits, partial(translate, done.text, positions, options.language_version))
    manifest = stopped_in_time(limits, partial(make_manifest, translation, closure, done.warnings))
    if (
        len(manifest.entries) == 1
        and not manifest.constants
        and not any(p.kind == "instantiation" for p in manifest.pieces)
    ):
        _compile_at_once(
            BuildSpec(manifest, next(iter(manifest.entries)), {}, False, options.math_mode, True),
            translation,
            compiler,
            key,
        )
    else:
        check_whole(manifest, translation, options, compiler)
    compiler.store.put_record(key, manifest.to_json())
    return manifest


def _compile_at_once(spec: BuildSpec, translation: Translation, compiler: Compiler, key: str) -> None:
    """For one plain kernel the compilation is the check, and its result is wanted next."""
    try:
        body = compile_spec(spec, compiler)
    except MissingConstant as missing:
        raise CompileError((_at_constant(missing, translation),)) from None
    except ImageRefused as refused:
        raise CompileError((_at_symbol(refused, spec, translation),)) from None
    except CompilerFailed as failure:
        raise refusal(failure, translation, spec.defines().count("\n") + 1, spec.wanted) from None
    compiler.store.put_record(spec.key(_version(key, spec.manifest), compiler.engine), body)
