"""Libraries: a source that passed the checks, its kernels, and their builds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

from ..cache import digest
from ..program import CompileError, CompileOptions, Constant, Diagnostic, Executable, Kernel
from ..toolchain import CompilerFailed
from .build import MissingConstant, Order, compile_order, load
from .emit import locate
from .image import ImageRefused
from .lanes import with_lanes
from .positions import Positions
from .preprocess import check_characters, closure_state, file_digest, preprocess
from .record import Record, make_record
from .syntax import check_part, check_whole, everything, refusal
from .translate import Translation, translate
from .workshop import Workshop, workshop


class _Kernels(Mapping[str, Kernel]):
    """Signatures, made when they are looked at."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._made: dict[str, Kernel] = {}

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._made:
            function = self._record.functions[self._record.entries[name].function]
            arguments = tuple(item.argument for item in function.items if item.argument)
            reached = self._record.reached(name)
            constants: list[Constant] = [b.constant for n, b in self._record.constants.items() if n in reached]
            self._made[name] = Kernel(name, arguments, tuple(constants), function.max_threads)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._record.entries)

    def __len__(self) -> int:
        return len(self._record.entries)


class SourceLibrary:
    """A library from source; `build` may be called from several threads."""

    def __init__(
        self, source: str, options: CompileOptions, path: str, shop: Workshop, record: Record, key: str
    ) -> None:
        self.kernels: Mapping[str, Kernel] = _Kernels(record)
        self.warnings = record.warnings
        self._source = source
        self._options = options
        self._path = path
        self._shop = shop
        self._record = record
        self._key = key
        self._built: dict[str, Executable] = {}
        self._locks: dict[str, Lock] = {}  # by build: different kernels are made side by side

    def build(self, name: str, constants: Mapping[int, bytes], *, checked: bool = False) -> Executable:
        """Compiles kernel `name` with constant values by index; raises CompileError, or KeyError for no such kernel."""
        order = Order(self._record, name, constants, checked, self._options.math_mode)
        key = order.key(self._key, self._shop.base_engine)
        with self._locks.setdefault(key, Lock()):
            if key not in self._built:
                made = self._stored(order, key) or self._make(order, key)
                if checked:
                    made = replace(made, locate=partial(self._locate, replace(order, whole=made.whole)))
                self._built[key] = with_lanes(made, order, self._shop, key)
            return self._built[key]

    def _stored(self, order: Order, key: str) -> Executable | None:
        body = self._shop.store.record(key)
        return load(order, self._shop, body) if body else None

    def _make(self, order: Order, key: str) -> Executable:
        try:
            body = compile_order(order, self._shop)
        except MissingConstant as missing:
            raise CompileError((self._at_constant(missing),)) from None
        except (CompilerFailed, ImageRefused) as failure:
            if order.whole:
                raise self._refusal(order, failure) from None
            # Names may have misled about what the kernel needs; the whole source decides.
            return self._make(replace(order, whole=True), key)
        self._shop.store.put_record(key, body)
        made = load(order, self._shop, body)
        if made is None:
            raise RuntimeError(f"the compiled kernel {order.entry} vanished from the cache")
        return made

    def _translated(self) -> Translation:
        """The way back to the user's lines is not kept; a message that needs it pays for it."""
        text = preprocess(self._source, self._options, self._path, self._shop.toolchain).text
        return translate(text, Positions(self._source, self._path, self._options.include_paths))

    def _locate(self, order: Order, line: int, column: int) -> Diagnostic | None:
        """The user's own place of one in the text that was compiled; None where included files are gone by now."""
        try:
            translation = self._translated()
        except (OSError, CompileError, CompilerFailed):
            return None
        before = order.defines().count("\n") + 1
        index = locate(translation.unit, translation.segments, order.wanted, line - before, column)
        return translation.unit.positions.diagnostic(translation.unit.tokens, index, "") if index >= 0 else None

    def _at_constant(self, missing: MissingConstant) -> Diagnostic:
        return _at_constant(missing, self._translated())

    def _refusal(self, order: Order, failure: CompilerFailed | ImageRefused) -> Exception:
        translation = self._translated()
        if isinstance(failure, ImageRefused):
            return CompileError((_at_symbol(failure, order, translation),))
        try:
            # An instantiation that was not looked at before may be to blame.
            check_part(make_record(translation, {}, ()), translation, self._options, self._shop, everything)
        except CompileError as refused:
            return refused
        return refusal(failure, translation, order.defines().count("\n") + 1, order.wanted)


def _at_constant(missing: MissingConstant, translation: Translation) -> Diagnostic:
    unit = translation.unit
    index = next((i for i, text in enumerate(unit.tokens.text) if text == missing.name), 0)
    return unit.positions.diagnostic(unit.tokens, index, str(missing))


def _at_symbol(refused: ImageRefused, order: Order, translation: Translation) -> Diagnostic:
    """The refusal of a compiled kernel, where the source calls what it is about, else at the kernel."""
    unit = translation.unit
    text = unit.tokens.text
    places = [index for index, token in enumerate(text) if token == refused.name]
    called = [index for index in places if text[index + 1 : index + 2] == ["("]]
    # The last call is a call; the first may be the declaration.
    index = (called or places or [translation.entries[order.entry].token])[-1]
    return unit.positions.diagnostic(unit.tokens, index, str(refused))


def open_library(
    source: str, options: CompileOptions, *, path: str = "program_source", shop: Workshop | None = None
) -> SourceLibrary:
    """A library of the kernels in `source`; raises CompileError."""
    check_characters(source, options, path)
    shop = shop or workshop()
    key = digest("library", shop.identity, source, path, repr(options))
    record = _known(shop, key)
    if record is None:
        record = _checked(source, options, path, shop, key)
        shop.store.put_record(key, record.to_json())
    return SourceLibrary(source, options, path, shop, record, _version(key, record))


def _version(key: str, record: Record) -> str:
    """A library's key for its builds: included files may change behind an unchanged source."""
    return digest(key, json.dumps(record.closure, sort_keys=True))


def _known(shop: Workshop, key: str) -> Record | None:
    body = shop.store.record(key)
    if body is None:
        return None
    record = Record.from_json(body)
    current = all(file_digest(Path(name)) == known for name, known in record.closure.items())
    return record if current else None


def _checked(source: str, options: CompileOptions, path: str, shop: Workshop, key: str) -> Record:
    """Translates the source and lets clang check it."""
    done = preprocess(source, options, path, shop.toolchain)
    translation = translate(done.text, Positions(source, path, options.include_paths))
    record = make_record(translation, closure_state(source, options, done.files), done.warnings)
    if len(record.entries) == 1 and not record.constants and not any(p.kind == "instantiation" for p in record.pieces):
        _compile_at_once(
            Order(record, next(iter(record.entries)), {}, False, options.math_mode, True), translation, shop, key
        )
    else:
        check_whole(record, translation, options, shop)
    return record


def _compile_at_once(order: Order, translation: Translation, shop: Workshop, key: str) -> None:
    """For one plain kernel the compilation is the check, and its result is wanted next."""
    try:
        body = compile_order(order, shop)
    except MissingConstant as missing:
        raise CompileError((_at_constant(missing, translation),)) from None
    except ImageRefused as refused:
        raise CompileError((_at_symbol(refused, order, translation),)) from None
    except CompilerFailed as failure:
        raise refusal(failure, translation, order.defines().count("\n") + 1, order.wanted) from None
    shop.store.put_record(order.key(_version(key, order.record), shop.base_engine), body)
