"""Libraries: a source that passed the checks, its kernels, and their builds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from threading import RLock

from ..cache import digest
from ..program import CompileError, CompileOptions, Constant, Diagnostic, Executable, Kernel
from ..toolchain import CompilerFailed
from . import diagnostics
from .build import SOURCE_NAME, MissingConstant, Order, check_defines, compile_order, load
from .emit import Piece, Segment, assemble, locate
from .positions import Positions
from .preprocess import closure_state, file_digest, preprocess
from .record import Record, make_record
from .translate import Translation, translate
from .workshop import Workshop, workshop

_FORMAT = "1"


class _Kernels(Mapping[str, Kernel]):
    """Signatures, made when they are looked at."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._made: dict[str, Kernel] = {}

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._made:
            function = self._record.functions[self._record.entries[name][0]]
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

    def __init__(self, source: str, options: CompileOptions, path: str, shop: Workshop, record: Record, key: str) -> None:
        self.kernels: Mapping[str, Kernel] = _Kernels(record)
        self.warnings = record.warnings
        self._source = source
        self._options = options
        self._path = path
        self._shop = shop
        self._record = record
        self._key = key
        self._built: dict[str, Executable] = {}
        self._lock = RLock()

    def build(self, name: str, constants: Mapping[int, bytes], *, checked: bool = False) -> Executable:
        """Compiles kernel `name` with constant values by index; raises CompileError, or KeyError for no such kernel."""
        order = Order(self._record, name, constants, checked, self._options.math_mode)
        given = {bound.constant.index: constants.get(bound.constant.index) for bound in order.used}
        shown = json.dumps({index: value.hex() if value is not None else None for index, value in given.items()})
        key = digest("kernel", self._key, name, shown, str(checked), self._shop.engine)
        with self._lock:
            if key not in self._built:
                self._built[key] = self._stored(order, key) or self._make(order, key)
            return self._built[key]

    def _stored(self, order: Order, key: str) -> Executable | None:
        body = self._shop.store.record(key)
        return load(order, self._shop, body) if body else None

    def _make(self, order: Order, key: str) -> Executable:
        try:
            body = compile_order(order, self._shop)
        except MissingConstant as missing:
            raise CompileError((self._at_constant(missing),)) from None
        except CompilerFailed as failure:
            raise CompileError(self._explained(order, failure.output)) from None
        self._shop.store.put_record(key, body)
        made = load(order, self._shop, body)
        if made is None:
            raise RuntimeError(f"the compiled kernel {order.entry} vanished from the cache")
        return made

    def _translated(self) -> Translation:
        """The way back to the user's lines is not kept; a message that needs it pays for it."""
        text = preprocess(self._source, self._options, self._path, self._shop.toolchain).text
        return translate(text, Positions(self._source, self._path))

    def _at_constant(self, missing: MissingConstant) -> Diagnostic:
        unit = self._translated().unit
        index = next((i for i, text in enumerate(unit.tokens.text) if text == missing.name), 0)
        return unit.positions.diagnostic(unit.tokens, index, str(missing))

    def _explained(self, order: Order, output: str) -> tuple[Diagnostic, ...]:
        translation = self._translated()
        before = order.defines().count("\n") + 1
        return _explain(output, translation, before, order.wanted)


def _explain(output: str, translation: Translation, before: int, wanted: object) -> tuple[Diagnostic, ...]:
    assert callable(wanted)
    names = {message.file for message in diagnostics.parse(output)}
    file = next((name for name in names if name.endswith(SOURCE_NAME)), SOURCE_NAME)

    def find(line: int, column: int) -> int:
        return locate(translation.unit, translation.segments, wanted, line - before, column)

    found = diagnostics.explain(output, file, translation.unit, find)
    path = translation.unit.positions.path
    return found or (translation.unit.positions.at(path, 1, 1, output.strip()),)


def open_library(
    source: str, options: CompileOptions, *, path: str = "program_source", shop: Workshop | None = None
) -> SourceLibrary:
    """A library of the kernels in `source`; raises CompileError."""
    shop = shop or workshop()
    key = digest("library", _FORMAT, shop.toolchain.fingerprint, source, path, repr(options))
    record = _known(shop, key)
    if record is None:
        record = _checked(source, options, path, shop)
        shop.store.put_record(key, record.to_json())
    # Included files may change behind an unchanged source.
    version = digest(key, json.dumps(record.closure, sort_keys=True))
    return SourceLibrary(source, options, path, shop, record, version)


def _known(shop: Workshop, key: str) -> Record | None:
    from pathlib import Path

    body = shop.store.record(key)
    if body is None:
        return None
    record = Record.from_json(body)
    current = all(file_digest(Path(name)) == known for name, known in record.closure.items())
    return record if current else None


def _checked(source: str, options: CompileOptions, path: str, shop: Workshop) -> Record:
    """Translates the source and lets clang check it with every instantiation."""
    done = preprocess(source, options, path, shop.toolchain)
    translation = translate(done.text, Positions(source, path))
    record = make_record(translation, closure_state(source, options, done.files), done.warnings)
    before = check_defines(record)
    flags = shop.flags(options.math_mode)
    with shop.store.scratch() as folder:
        file = folder / SOURCE_NAME
        file.write_text(f"{before}\n{assemble(record.pieces, _everything)}\n")
        options_list = [*flags, "-include-pch", str(shop.precompiled(flags)), "-w", "-ferror-limit=20"]
        try:
            shop.toolchain.run(shop.toolchain.check_syntax(file, options_list))
        except CompilerFailed as failure:
            raise CompileError(_explain(failure.output, translation, before.count("\n") + 1, _everything)) from None
    return record


def _everything(part: Piece | Segment) -> bool:
    return True
